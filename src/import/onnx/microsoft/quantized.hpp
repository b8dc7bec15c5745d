// Products of quantised operands, as onnxruntime's quantiser and optimizer write them.
#pragma once

#include "import/onnx/node.hpp"

namespace attacca::import {

// Where a node has its operands; scales and zero points are scalars, or B's one a column.
struct ScaledProduct {
  size_t a, b, scale_a, scale_b, zero_a, zero_b, bias;
};
// (a - zero_a) @ (b - zero_b) * scale_a * scale_b + bias, in the dtype of B's scale.
Result<Expr> scaled_product(Node& node, const ScaledProduct& at);

}  // namespace attacca::import
