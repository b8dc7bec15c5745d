// The difference of two results, and whether a bound allows it.
#pragma once

#include <optional>

#include "ir/graph/tensor.hpp"
#include "run/check/error_bound.hpp"

namespace attacca::run {

struct Difference {
  double largest = 0;          // |got - want|, over the elements where both are finite
  double scale = 0;            // the largest finite |want|
  int64_t mismatched_nan = 0;  // NaN or infinite in one only (or infinities of two signs)
  double relative() const { return scale > 0 ? largest / scale : largest; }
};

// REQUIRES: equal shapes, both row-major; dtypes may differ.
Difference compare(const ir::Tensor& got, const ir::Tensor& want);
Difference compare(const ir::Tensor& got, const Bounded& want);

// A result against its bound.
struct Verdict {
  int64_t outside = 0;           // elements outside of their bounds
  std::optional<int64_t> first;  // of those, in row-major order
  int64_t unbounded = 0;         // elements for which the bound promises nothing
  double used = 0;               // the largest |got - want| in parts of what is allowed
  bool passed() const { return outside == 0; }
};

// An element without a bound is outside if it is of another kind (finite, an infinity, NaN) than
// both the reference and `other`, the result of another way to compute the graph.
// REQUIRES: equal shapes, row-major.
Verdict judge(const ir::Tensor& got, const Bounded& bound, const ir::Tensor& other);

}  // namespace attacca::run
