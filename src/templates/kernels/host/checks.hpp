// Shared by the builders: metadata of the hole, and checks of a launch's arguments. A check returns
// 0, or writes a reason and returns 1.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "common/element.cuh"
#include "common/hole.cuh"
#include "host/record.hpp"

namespace {

[[maybe_unused]] inline int64_t divide_up(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

// cuTensorMapEncodeTiled (CUDA driver API) takes strides below 2^40 bytes.
[[maybe_unused]] constexpr int64_t kMaxStrideBytes = int64_t{1} << 40;

// Metadata common to kernels for sm_90a. All of them wait for the previous kernel by themselves
// (attacca_info::dependent_launch).
[[maybe_unused]] inline attacca_info hopper_info() {
  attacca_info info;
  info.arch = "sm_90a";
  info.min_capability = info.max_capability = 90;
  info.dependent_launch = true;
  return info;
}

// B of a product (set 0) or of a gate's second product (set 1).
[[maybe_unused]] inline const attacca_operand& weight(const attacca_gemm_arguments& arguments,
                                                      int set) {
  return set == 0 ? arguments.b : arguments.b1;
}

// attacca_template_entry::workspace of a kernel that needs none.
[[maybe_unused]] inline size_t no_workspace(const attacca_gemm_arguments*, size_t* zero_offset,
                                            size_t* zero_bytes) {
  *zero_offset = *zero_bytes = 0;
  return 0;
}

[[maybe_unused]] inline void describe_hole(attacca_info& info) {
  info.accumulators = kAccumulators;
  for (int i = 0; i < kFulls; ++i) info.full_bits[i] = kFullBits[i];
  for (int i = 0; i < kResults; ++i) info.result_bits[i] = kResultBits[i];
  info.rows = kRows;
  info.columns = kColumns;
  info.maxima = kMaxima;
}

// Fills in the dtypes that the kernel multiplies. The source is written for the first of them;
// templates/instantiate.cpp makes the others from its PTX.
[[maybe_unused]] inline void describe_element(attacca_info& info) {
  constexpr const char* kTypes[][2] = {{"bf16", "f16"}, {"s8", "u8"}, {"f8e4m3", "f8e5m2"}};
  for (int i = 0; i < 2; ++i) info.input_types[i] = kTypes[ELEMENT - ELEMENT_BF16][i];
  info.mixed_inputs = kElementBytes == 1;
  if (ELEMENT == ELEMENT_S8) info.accumulator_type = "s32";
}

// Writes the reason and returns 1, for attacca_template_entry::check.
[[maybe_unused]] __attribute__((format(printf, 3, 4))) inline int refuse(char* reason,
                                                                         size_t reason_bytes,
                                                                         const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (reason_bytes > 0) std::vsnprintf(reason, reason_bytes, format, arguments);
  va_end(arguments);
  return 1;
}

[[maybe_unused]] inline int check_extents(const attacca_gemm_arguments& arguments, char* reason,
                                          size_t reason_bytes) {
  const int32_t extents[] = {arguments.m, arguments.n, arguments.k, arguments.batch};
  const char* names[] = {"m", "n", "k", "batch"};
  for (int i = 0; i < 4; ++i)
    if (extents[i] < 0)
      return refuse(reason, reason_bytes, "%s is negative: %d", names[i], extents[i]);
  return 0;
}

// Checks that `pointer` is a multiple of `least`, a power of two. The reason names the alignment
// and not the address, because the address may be a placeholder of that alignment
// (launch/legality.cpp).
[[maybe_unused]] inline int check_address(const char* name, const void* pointer, int least,
                                          char* reason, size_t reason_bytes) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  if (address % least == 0) return 0;
  return refuse(reason, reason_bytes, "%s must be aligned to %d bytes, not to %d", name, least,
                static_cast<int>(address & -address));
}

// Checks that operand `slot` of this kind is aligned to its elements, which have `bytes` bytes.
[[maybe_unused]] inline int check_elements(const char* kind, int slot, const void* pointer,
                                           int bytes, char* reason, size_t reason_bytes) {
  char name[32];
  std::snprintf(name, sizeof name, "%s %d", kind, slot);
  return check_address(name, pointer, bytes, reason, reason_bytes);
}

// Checks results or full operands: each needs a slot and must be aligned to its elements. `bits`:
// the width of each slot's elements; 0: no such slot.
[[maybe_unused]] inline int check_slots(const char* name, const attacca_operand* operands,
                                        const int* bits, int count, char* reason,
                                        size_t reason_bytes) {
  for (int i = 0; i < count; ++i) {
    if (!operands[i].pointer) continue;
    if (!bits[i])
      return refuse(reason, reason_bytes, "%s %d: the template has no such slot", name, i);
    if (check_elements(name, i, operands[i].pointer, bits[i] / 8, reason, reason_bytes)) return 1;
  }
  return 0;
}

[[maybe_unused]] inline int check_vectors(const char* name, const attacca_vector* vectors,
                                          int slots, char* reason, size_t reason_bytes) {
  for (int i = 0; i < 2; ++i) {
    const attacca_vector& v = vectors[i];
    if (!v.pointer) continue;
    if (i >= slots)
      return refuse(reason, reason_bytes, "%s %d: the template has no such slot", name, i);
    if (v.bytes != 1 && v.bytes != 2 && v.bytes != 4)
      return refuse(reason, reason_bytes, "%s %d: elements of %d bytes; 1, 2 or 4 are taken", name,
                    i, v.bytes);
    if (check_elements(name, i, v.pointer, v.bytes, reason, reason_bytes)) return 1;
  }
  return 0;
}

// Checks the epilogue's operands, the maximum and B1 against the hole; those that the template has
// no slot for are refused.
[[maybe_unused]] inline int check_operands(const attacca_gemm_arguments& g, char* reason,
                                           size_t bytes) {
  if (check_slots("result", g.result, kResultBits, 2, reason, bytes) ||
      check_slots("full operand", g.full, kFullBits, 4, reason, bytes) ||
      check_vectors("row vector", g.row, kRows, reason, bytes) ||
      check_vectors("column vector", g.column, kColumns, reason, bytes))
    return 1;
  if (g.maximum && kMaxima == 0) return refuse(reason, bytes, "the template keeps no maximum");
  if (g.b1.pointer && kAccumulators < 2)
    return refuse(reason, bytes, "B1: the template multiplies by B alone");
  return 0;
}

}  // namespace
