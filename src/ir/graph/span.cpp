#include "ir/graph/span.hpp"

#include <algorithm>

namespace attacca::ir {

std::optional<int64_t> span_of(const std::vector<int64_t>& shape,
                               const std::vector<int64_t>& strides) {
  if (std::count(shape.begin(), shape.end(), 0) > 0) return 0;
  int64_t span = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    int64_t step = 0;
    if (__builtin_mul_overflow(shape[axis] - 1, strides[axis], &step) ||
        __builtin_add_overflow(span, step, &span))
      return std::nullopt;
  }
  return span;
}

}  // namespace attacca::ir
