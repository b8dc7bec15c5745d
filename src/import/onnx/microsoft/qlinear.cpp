// Ops on quantised tensors, as onnxruntime's quantiser writes them: each computes on real numbers
// and quantises its result. Every scale and zero point is of a whole tensor.
#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "import/onnx/products/linear.hpp"

namespace attacca::import {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;

Result<Value> of_tensor(Node& node, size_t at) {
  ATTACCA_TRY(const Value value, node.input(at));
  if (!ir::element_count(node.shape(value)).is(1))
    return fail(fmt::format("a scale or zero point of shape {} (input {})",
                            ir::to_string(node.shape(value)), at),
                {}, "quantise per tensor");
  return folded(reshape(node.expr(value), {})).value;
}

// A scale at this input, and perhaps a zero point after it.
Result<Quantisation> quantisation_at(Node& node, size_t at) {
  Quantisation by{};
  ATTACCA_TRY(by.scale, of_tensor(node, at));
  if (node.dtype(by.scale) != DType::F32)
    return fail(fmt::format("a scale of {}", ir::name(node.dtype(by.scale))), {},
                "cast it to float");
  if (node.has(at + 1)) {
    ATTACCA_TRY(by.zero, of_tensor(node, at + 1));
  }
  return by;
}

struct Shifted {
  Expr x;  // q - zero, in f32
  Expr scale;
};

// A tensor of bytes, with its scale and zero point after it.
Result<Shifted> shifted_at(Node& node, size_t at) {
  ATTACCA_TRY(const Value q, node.input(at));
  ATTACCA_TRY(const Quantisation by, quantisation_at(node, at + 1));
  const DType dtype = node.dtype(q);
  if (!ir::is_byte(dtype) || (by.zero && node.dtype(*by.zero) != dtype))
    return fail(fmt::format("numbers of {} (input {})", ir::name(dtype), at), {},
                "give uint8 or int8, and a zero point of the same type");
  Expr x = cast(node.expr(q), DType::F32);
  if (by.zero && !is_zero(node, *by.zero)) x = x - folded(cast(node.expr(*by.zero), DType::F32));
  return Shifted{x, node.expr(by.scale)};
}

Result<Expr> real_at(Node& node, size_t at) {
  ATTACCA_TRY(const Shifted found, shifted_at(node, at));
  return found.x * found.scale;
}

// Quantised to the dtype of the zero point, else to that of the input `like`.
Result<Outputs> quantised(Node& node, const Expr& y, size_t scale, size_t like) {
  ATTACCA_TRY(const Value value, y.value);
  ATTACCA_TRY(const Quantisation by, quantisation_at(node, scale));
  ATTACCA_TRY(const Value q, node.input(like));
  ATTACCA_TRY(const Value result,
              quantize_to(node, value, by, by.zero ? node.dtype(*by.zero) : node.dtype(q)));
  return result;
}

}  // namespace

Result<Outputs> qlinear_add(Node& node) {
  ATTACCA_TRY(const Expr a, real_at(node, 0));
  ATTACCA_TRY(const Expr b, real_at(node, 3));
  return quantised(node, a + b, 6, 0);
}

// The product of the whole numbers is exact; its factor is rounded as onnxruntime rounds it.
Result<Outputs> qlinear_mul(Node& node) {
  ATTACCA_TRY(const Shifted a, shifted_at(node, 0));
  ATTACCA_TRY(const Shifted b, shifted_at(node, 3));
  ATTACCA_TRY(Quantisation by, quantisation_at(node, 6));
  ATTACCA_TRY(const Value q, node.input(0));
  const Expr factor = folded(folded(a.scale * b.scale) / node.expr(by.scale));
  const DType dtype = by.zero ? node.dtype(*by.zero) : node.dtype(q);
  ATTACCA_TRY(const Value value, (a.x * b.x * factor).value);
  by.scale = node.graph().literal(1, DType::F32);
  ATTACCA_TRY(const Value result, quantize_to(node, value, by, dtype));
  return result;
}

Result<Outputs> qlinear_sigmoid(Node& node) {
  ATTACCA_TRY(const Expr x, real_at(node, 0));
  return quantised(node, emit(Op::Sigmoid, x), 3, 0);
}

Result<Outputs> qlinear_leaky_relu(Node& node) {
  ATTACCA_TRY(const Expr x, real_at(node, 0));
  return quantised(node, emit_with(Op::LeakyRelu, x, {node.real("alpha", 0.01)}), 3, 0);
}

// opset= is ai.onnx's, whose Softmax took all axes from axis= on until 12.
Result<Outputs> qlinear_softmax(Node& node) {
  ATTACCA_TRY(const Expr x, real_at(node, 0));
  ATTACCA_TRY(const Value value, x.value);
  const int64_t rank = node.rank(value);
  const bool flat = node.integer("opset", 13) < 13;
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", flat ? 1 : -1), rank));
  const bool joins = flat && axis != rank - 1;
  const ir::Shape shape = node.shape(value);
  ATTACCA_TRY(const Value rows, (joins ? reshape(x, flattened(shape, axis)) : x).value);
  const Expr y = node.expr(rows);
  const Expr result{&node.graph(), ir::softmax(node.graph(), *y.value, joins ? 1 : axis)};
  return quantised(node, reshape(result, shape), 3, 0);
}

// The result's scale and zero point come first, then each part with its own.
Result<Outputs> qlinear_concat(Node& node) {
  std::vector<Expr> parts;
  for (size_t at = 2; at < node.inputs(); at += 3) {
    ATTACCA_TRY(const Expr part, real_at(node, at));
    parts.push_back(part);
  }
  if (parts.empty()) return fail("the node has no inputs", {}, kInputsFix);
  ATTACCA_TRY(const Value first, parts[0].value);
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", 0), node.rank(first)));
  return quantised(node, joined(node, parts, axis), 0, 2);
}

Result<Outputs> qlinear_where(Node& node) {
  ATTACCA_TRY(const Expr x, real_at(node, 1));
  ATTACCA_TRY(const Expr y, real_at(node, 4));
  return quantised(node, where(node.x(0), x, y), 7, 1);
}

}  // namespace attacca::import
