// How far a result is from another.
#pragma once

#include "ir/tensor.hpp"

namespace attacca::run {

struct Difference {
  double largest = 0;          // |got - want|, over the elements where both are finite
  double scale = 0;            // the largest finite |want|
  int64_t mismatched_nan = 0;  // NaN or infinite in one only (or infinities of two signs)
  double relative() const { return scale > 0 ? largest / scale : largest; }
};

// REQUIRES: equal shapes, both row-major; dtypes may differ.
Difference compare(const ir::Tensor& got, const ir::Tensor& want);

}  // namespace attacca::run
