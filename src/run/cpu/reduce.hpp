// Reductions of dense tensors.
#pragma once

#include <vector>

#include "ir/graph/mode.hpp"
#include "ir/graph/op.hpp"
#include "ir/graph/tensor.hpp"

namespace attacca::run {

// Reduces `from` over the axes where `reduced` is set. `to` has the kept axes' extents in order
// (extents of 1 may stand anywhere). Floats are summed in f64, rounded to f32 (except f64), then to
// to's dtype; in eager mode from the first element to the last in row-major order. Integers wrap.
// Results do not depend on the number of threads. REQUIRES: both row-major.
void reduce(ir::Op op, const ir::Tensor& from, const std::vector<bool>& reduced, ir::Tensor& to,
            ir::Mode mode, int threads);

}  // namespace attacca::run
