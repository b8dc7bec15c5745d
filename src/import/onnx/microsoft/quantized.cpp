#include "import/onnx/microsoft/quantized.hpp"

#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "import/onnx/products/linear.hpp"

namespace attacca::import {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;

Result<Expr> scale_at(Node& node, size_t at) {
  ATTACCA_TRY(const Value scale, node.input(at));
  if (!ir::is_float(node.dtype(scale)))
    return fail(fmt::format("a scale of {}", ir::name(node.dtype(scale))), {}, "cast it to float");
  if (ir::element_count(node.shape(scale)).is(1)) return folded(reshape(node.expr(scale), {}));
  return node.expr(scale);
}

// The product times the scales of both operands, in the dtype of B's.
Result<Expr> scaled(Node& node, const Expr& product, const Expr& a, const Expr& b) {
  ATTACCA_TRY(const Value exact, product.value);
  ATTACCA_TRY(const Value of_b, b.value);
  const Expr factor = folded(cast(a, DType::F32) * cast(b, DType::F32));
  ATTACCA_TRY(const Expr real, of_shape(node, cast(product, DType::F32) * factor, node.shape(exact),
                                        "the scale of B"));
  return cast(real, node.dtype(of_b));
}

Expr turned_if(Node& node, Value x, const char* attribute) {
  return node.integer(attribute, 0) != 0 ? emit(Op::Transpose, node.expr(x)) : node.expr(x);
}

}  // namespace

Result<Outputs> dynamic_quantize_mat_mul(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  if (node.dtype(x) != DType::F32)
    return fail(fmt::format("A is {}", ir::name(node.dtype(x))), {}, "cast it to float");
  ATTACCA_TRY(const DynamicallyQuantized a, dynamically_quantized(node, x));
  ATTACCA_TRY(const QuantizedOperand b, quantized_operand(node, 1, 3));
  ATTACCA_TRY(const Expr product, integer_product(node, a.operand, b));
  ATTACCA_TRY(const Expr scale, scale_at(node, 2));
  ATTACCA_TRY(const Expr real, scaled(node, product, node.expr(a.scale), scale));
  ATTACCA_TRY(const Expr result, biased(node, real, 4));
  return result;
}

Result<Expr> scaled_product(Node& node, const ScaledProduct& at) {
  ATTACCA_TRY(const QuantizedOperand a, quantized_operand(node, at.a, at.zero_a));
  ATTACCA_TRY(const QuantizedOperand b, quantized_operand(node, at.b, at.zero_b));
  ATTACCA_TRY(const Expr product, integer_product(node, a, b));
  ATTACCA_TRY(const Expr scale_a, scale_at(node, at.scale_a));
  ATTACCA_TRY(const Expr scale_b, scale_at(node, at.scale_b));
  ATTACCA_TRY(const Expr real, scaled(node, product, scale_a, scale_b));
  return biased(node, real, at.bias);
}

Result<Outputs> mat_mul_integer_to_float(Node& node) {
  ATTACCA_TRY(
      const Expr product,
      scaled_product(
          node, {.a = 0, .b = 1, .scale_a = 2, .scale_b = 3, .zero_a = 4, .zero_b = 5, .bias = 6}));
  return product;
}

// alpha * scale_a * scale_b * (A @ B + C) in f32 or, with y_scale, quantised. The factor is rounded
// to f32 in onnxruntime's order.
Result<Outputs> q_gemm(Node& node) {
  ATTACCA_TRY(QuantizedOperand a, quantized_operand(node, 0, 2));
  ATTACCA_TRY(QuantizedOperand b, quantized_operand(node, 3, 5));
  if (node.rank(a.q) != 2 || node.rank(b.q) != 2)
    return fail(fmt::format("QGemm multiplies matrices, got {} and {}",
                            ir::to_string(node.shape(a.q)), ir::to_string(node.shape(b.q))));
  ATTACCA_TRY(a.q, turned_if(node, a.q, "transA").value);
  ATTACCA_TRY(b.q, turned_if(node, b.q, "transB").value);
  ATTACCA_TRY(Expr sum, integer_product(node, a, b));
  ATTACCA_TRY(const Value product, sum.value);
  if (node.has(6)) {
    ATTACCA_TRY(sum, of_shape(node, sum + node.x(6), node.shape(product), "C"));
  }
  ATTACCA_TRY(const Expr scale_a, scale_at(node, 1));
  ATTACCA_TRY(const Expr scale_b, scale_at(node, 4));
  Expr factor = folded(folded(scale_a * node.real("alpha", 1.0)) * scale_b);
  DType dtype = node.dtype(a.q);
  if (node.has(7)) {
    ATTACCA_TRY(const Expr scale_y, scale_at(node, 7));
    factor = folded(factor / scale_y);
  }
  ATTACCA_TRY(const Expr real,
              of_shape(node, cast(sum, DType::F32) * factor, node.shape(product), "a scale"));
  if (!node.has(7)) return real;
  Expr rounded = emit(Op::Round, real);
  if (node.has(8)) {
    ATTACCA_TRY(const Value zero, node.input(8));
    dtype = node.dtype(zero);
    if (!is_zero(node, zero))
      rounded = rounded + folded(cast(reshape(node.expr(zero), {}), DType::F32));
  }
  if (!ir::is_byte(dtype))
    return fail(fmt::format("numbers are quantised to {}", ir::name(dtype)), {},
                "give a zero point of uint8 or int8");
  return cast(rounded, dtype, true);
}

}  // namespace attacca::import
