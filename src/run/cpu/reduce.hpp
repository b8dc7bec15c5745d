// Reductions of a strided tensor, summed in the reference's order.
#pragma once

#include <vector>

#include "ir/graph/op.hpp"
#include "ir/graph/tensor.hpp"

namespace attacca::run {

// Reduces `from` over the axes where `reduced` is set. `to` has the kept axes' extents in order
// (extents of 1 may stand anywhere). Floats accumulate in f64 from the first element to the last in
// row-major order, are rounded to f32 (except f64), then to to's dtype; integers wrap.
void reduce(ir::Op op, const ir::Tensor& from, const std::vector<bool>& reduced, ir::Tensor& to,
            int threads);

}  // namespace attacca::run
