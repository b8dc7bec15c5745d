// A matrix as builders see it: contiguous along its inner axis, with a stride along its outer axis
// and one along the batch. check_factor() says whether a kernel takes it.
#pragma once

#include <algorithm>

#include "host/checks.hpp"

namespace {

struct Axis {
  const char* name;
  int64_t extent, stride;  // in elements
};

struct Factor {
  const char* name;  // for messages
  const void* pointer;
  int bytes;  // of an element
  Axis inner, outer, batch;
};

// Which strides along the outer axis and the batch a kernel takes.
//   Multiples16  multiples of 16 bytes
//   Tma          of these, what cuTensorMapEncodeTiled takes: positive (along the batch, 0 too) and
//                below 2^40 bytes
enum class Steps { Multiples16, Tma };

[[maybe_unused]] inline Factor factor_a(const attacca_gemm_arguments& g, int bytes) {
  return {.name = "A",
          .pointer = g.a.pointer,
          .bytes = bytes,
          .inner = {"k", g.k, g.a.column_stride},
          .outer = {"m", g.m, g.a.row_stride},
          .batch = {"batch", g.batch, g.a.batch_stride}};
}

// B (set 0) or B1 (set 1), contiguous along k or along n.
[[maybe_unused]] inline Factor factor_b(const attacca_gemm_arguments& g, int set, bool k_major,
                                        int bytes) {
  const attacca_operand& b = weight(g, set);
  const Axis k{"k", g.k, b.row_stride}, n{"n", g.n, b.column_stride};
  return {.name = set == 0 ? "B" : "B1",
          .pointer = b.pointer,
          .bytes = bytes,
          .inner = k_major ? k : n,
          .outer = k_major ? n : k,
          .batch = {"batch", g.batch, b.batch_stride}};
}

// Checks that B and B1, each of so many matrices, are alternate columns of one (K, 2 N).
[[maybe_unused]] inline int check_alternate(const attacca_gemm_arguments& g, int matrices,
                                            char* reason, size_t bytes) {
  const auto* b = static_cast<const uint16_t*>(g.b.pointer);
  const auto* b1 = static_cast<const uint16_t*>(g.b1.pointer);
  const bool neighbours = (!b && !b1) || b1 == b + 1 || b == b1 + 1;
  const bool alike = (g.k <= 1 || g.b.row_stride == g.b1.row_stride) &&
                     (matrices <= 1 || g.b.batch_stride == g.b1.batch_stride);
  const bool alternate = g.n <= 1 || (g.b.column_stride == 2 && g.b1.column_stride == 2);
  if (neighbours && alike && alternate) return 0;
  return refuse(reason, bytes, "B and B1 must be alternate columns of one matrix");
}

// The matrix of which B and B1 are alternate columns. `factor`: B, contiguous along n.
[[maybe_unused]] inline Factor both_columns(Factor factor, const attacca_gemm_arguments& g) {
  factor.pointer = std::min(g.b.pointer, g.b1.pointer);
  factor.inner = {"n", 2 * int64_t{g.n}, 1};
  return factor;
}

// A result or a full operand, contiguous along n.
[[maybe_unused]] inline Factor factor_mn(const char* name, const attacca_operand& operand,
                                         int bytes, const attacca_gemm_arguments& g) {
  return {.name = name,
          .pointer = operand.pointer,
          .bytes = bytes,
          .inner = {"n", g.n, operand.column_stride},
          .outer = {"m", g.m, operand.row_stride},
          .batch = {"batch", g.batch, operand.batch_stride}};
}

// Checks address and strides. The stride of an axis of at most one element is ignored.
[[maybe_unused]] inline int check_factor(const Factor& factor, Steps steps, char* reason,
                                         size_t bytes) {
  const auto& [axis, extent, stride] = factor.inner;
  if (stride != 1 && extent > 1)
    return refuse(reason, bytes, "%s must be contiguous along %s, its stride there is %lld",
                  factor.name, axis, static_cast<long long>(stride));
  if (check_address(factor.name, factor.pointer, 16, reason, bytes)) return 1;
  const struct {
    const Axis& axis;
    int64_t least;
  } walked[] = {{factor.outer, 1}, {factor.batch, 0}};
  for (const auto& [along, least] : walked) {
    const int64_t step = along.stride * factor.bytes;
    const bool far = along.stride < least || along.stride >= kMaxStrideBytes / factor.bytes;
    if (along.extent > 1 && (step % 16 != 0 || (steps == Steps::Tma && far)))
      return refuse(reason, bytes,
                    "steps of %s along %s must be a multiple of 16 bytes%s, not %lld", factor.name,
                    along.name, steps == Steps::Tma ? ", forwards and less than 2^40" : "",
                    static_cast<long long>(step));
  }
  return 0;
}

// The strides along the outer axis and the batch, in elements. cuTensorMapEncodeTiled checks
// strides along axes of one element too, so these are replaced by strides that it takes.
struct OuterStrides {
  int64_t outer, batch;
};
[[maybe_unused]] inline OuterStrides outer_strides(const Factor& factor) {
  const int64_t line = 16 / factor.bytes;
  const int64_t outer =
      factor.outer.extent > 1 ? factor.outer.stride : divide_up(factor.inner.extent, line) * line;
  return {outer, factor.batch.extent > 1 ? factor.batch.stride : outer * factor.outer.extent};
}

}  // namespace
