// Quantised operands and their products, for the readers of ai.onnx and com.microsoft.
#pragma once

#include "import/onnx/node.hpp"

namespace attacca::import {

// Numbers of 8 bits and the zero point of their dtype: a scalar, or for each row of a product's
// first operand or each column of its second one.
struct QuantizedOperand {
  ir::Value q;
  std::optional<ir::Value> zero = {};
};
// Inputs; the zero point is optional.
Result<QuantizedOperand> quantized_operand(Node& node, size_t q_at, size_t zero_at);
// (a - its zero point) @ (b - its zero point) in s32, the product itself on 8-bit operands.
Result<Expr> integer_product(Node& node, const QuantizedOperand& a, const QuantizedOperand& b);
// Whether a constant is 0 everywhere.
bool is_zero(Node& node, ir::Value value);

// Errors: it is no type that numbers are quantised to, that scales have, or not that of what a zero
// point belongs to.
Status check_quantized(ir::DType dtype);
Status check_scale(Node& node, ir::Value scale);
Status check_zero(Node& node, ir::Value zero, ir::DType quantized);
// A per-axis parameter of shape [C] along `axis` of a tensor of `rank`; scalars and [1] as scalars.
Result<ir::Value> along_axis(Node& node, ir::Value parameter, int64_t axis, int64_t rank);

struct Quantisation {
  ir::Value scale;
  std::optional<ir::Value> zero;
};
// round(x / scale) + zero, saturated.
Result<ir::Value> quantize_to(Node& node, ir::Value x, const Quantisation& by, ir::DType dtype);

// x in u8, by its range widened to hold 0.
struct DynamicallyQuantized {
  QuantizedOperand operand;
  ir::Value scale;
};
Result<DynamicallyQuantized> dynamically_quantized(Node& node, ir::Value x);

// x if it has this shape: what was added to it, `what`, did not broaden it.
Result<Expr> of_shape(Node& node, const Expr& x, const ir::Shape& shape, std::string_view what);
// The product, plus the input where there is one.
Result<Expr> biased(Node& node, const Expr& product, size_t bias);

}  // namespace attacca::import
