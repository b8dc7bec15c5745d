// What builders of our own kernels share: the hole's metadata and checks with reasons.
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

// What TMA's steps along an axis must stay below.
[[maybe_unused]] constexpr int64_t kMaxStrideBytes = int64_t{1} << 40;

// Of a kernel for sm_90a that may be launched while the one before ends.
[[maybe_unused]] inline attacca_info hopper_info() {
  attacca_info info;
  info.arch = "sm_90a";
  info.min_capability = info.max_capability = 90;
  info.dependent_launch = true;
  return info;
}

// B of a product, or of a gate's second one.
[[maybe_unused]] inline const attacca_operand& weight(const attacca_gemm_arguments& arguments,
                                                      int set) {
  return set == 0 ? arguments.b : arguments.b1;
}

// As attacca_template_entry has it, of a kernel that needs none.
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

// What the kernel multiplies; the source is written for the first type of the list.
[[maybe_unused]] inline void describe_element(attacca_info& info) {
  constexpr const char* kTypes[][2] = {{"bf16", "f16"}, {"s8", "u8"}, {"f8e4m3", "f8e5m2"}};
  for (int i = 0; i < 2; ++i) info.input_types[i] = kTypes[ELEMENT - ELEMENT_BF16][i];
  info.mixed_inputs = kElementBytes == 1;
  if (ELEMENT == ELEMENT_S8) info.accumulator_type = "s32";
}

// Returns 1, what `check` returns of what is not legal.
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

// Whether `pointer` is a multiple of `least`, a power of two. The reason says how aligned it is:
// `check` also gets addresses that only stand for an alignment (abi.h).
[[maybe_unused]] inline int check_address(const char* name, const void* pointer, int least,
                                          char* reason, size_t reason_bytes) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  if (address % least == 0) return 0;
  return refuse(reason, reason_bytes, "%s must be aligned to %d bytes, not to %d", name, least,
                static_cast<int>(address & -address));
}

// The same of an operand of this kind and slot, whose elements have so many bytes.
[[maybe_unused]] inline int check_elements(const char* kind, int slot, const void* pointer,
                                           int bytes, char* reason, size_t reason_bytes) {
  char name[32];
  std::snprintf(name, sizeof name, "%s %d", kind, slot);
  return check_address(name, pointer, bytes, reason, reason_bytes);
}

// Results and full operands: a slot for each, and elements at addresses of their size.
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

// What the hole of every template says of its operands, and what a template without such a thing
// refuses.
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
