// What builders of our own kernels share: the hole's metadata and checks with reasons.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "common/element.cuh"
#include "common/hole.cuh"
#include "common/record.hpp"

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

// The stride of an axis of one element says nothing.
[[maybe_unused]] inline int check_contiguous(const char* name, const char* axis, int64_t stride,
                                             int64_t extent, char* reason, size_t reason_bytes) {
  if (stride == 1 || extent <= 1) return 0;
  return refuse(reason, reason_bytes, "%s must be contiguous along %s, its stride there is %lld",
                name, axis, static_cast<long long>(stride));
}

[[maybe_unused]] inline int check_address(const char* name, const void* pointer, char* reason,
                                          size_t reason_bytes) {
  if (reinterpret_cast<uintptr_t>(pointer) % 16 == 0) return 0;
  return refuse(reason, reason_bytes, "%s must be at a multiple of 16 bytes, not at %p", name,
                pointer);
}

}  // namespace
