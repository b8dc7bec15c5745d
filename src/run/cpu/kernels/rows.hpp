// Softmax and what norms are made of, one row of f32 at a time, while it is in cache.
#pragma once

#include <cstddef>

namespace attacca::run {

// `out` may be `x`. Sums run in f64 and are rounded to f32. NaN is the maximum of numbers among
// which it is. REQUIRES of softmax: n > 0.
struct RowKernels {
  // out = exp(x - max(x)) / sum(exp(x - max(x))).
  void (*softmax)(const float* x, float* out, size_t n);
  // out = x - mean(x); returns the mean of out's squares.
  float (*centre)(const float* x, float* out, size_t n);
  // Returns the mean of the squares.
  float (*mean_square)(const float* x, size_t n);
};
const RowKernels& row_kernels();

}  // namespace attacca::run
