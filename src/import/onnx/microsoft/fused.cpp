// Products, norms and activations that onnxruntime's optimizer fuses.
#include <cmath>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"

namespace attacca::import {
namespace {

using ir::Op;
using ir::Value;

// input + skip, and + bias where there is one: the sum that is normalised.
Expr skipped(Node& node, size_t bias) {
  const Expr sum = node.x(0) + node.x(1);
  return node.has(bias) ? sum + node.x(bias) : sum;
}

// The normalised sum and, as the fourth output, the sum itself.
Result<Outputs> with_sum(Node& node, const Expr& y, Value sum) {
  if (node.wants(1) || node.wants(2))
    return fail("outputs 1 and 2, the statistics, are not supported", {},
                "optimise the model for inference");
  ATTACCA_TRY(const Value result, y.value);
  return std::vector<Value>{result, result, result, sum};
}

Result<Value> normalised_sum(Node& node, const Expr& sum) {
  ATTACCA_TRY(const Value value, sum.value);
  if (node.rank(value) < 1) return fail("a scalar has no axis to normalise");
  return value;
}

struct Activation {
  std::string_view name;
  Op op;
  std::vector<double> params;  // where the node gives none: alpha, beta
};

Result<Expr> activated(Node& node, const Expr& x) {
  static const Activation kActivations[] = {
      {"Relu", Op::Relu, {}},     {"Sigmoid", Op::Sigmoid, {}},
      {"Tanh", Op::Tanh, {}},     {"LeakyRelu", Op::LeakyRelu, {0.01}},
      {"Elu", Op::Elu, {1.0}},    {"HardSigmoid", Op::HardSigmoid, {0.2, 0.5}},
      {"Clip", Op::Clamp, {0, 0}}};
  const std::string wanted = node.text("activation", "");
  if (wanted.empty()) return x;
  for (const Activation& activation : kActivations) {
    if (activation.name != wanted) continue;
    std::vector<double> params = activation.params;
    constexpr std::string_view kNames[] = {"activation_alpha", "activation_beta"};
    for (size_t i = 0; i < params.size(); ++i) params[i] = node.real(kNames[i], params[i]);
    if (const auto* given =
            node.typed("activation_params", onnx::AttributeProto::FLOATS))  // FusedConv's
      params.assign(given->floats().begin(), given->floats().end());
    if (params.size() != activation.params.size())
      return fail(fmt::format("{} activation_params of {}", params.size(), wanted));
    return emit_with(activation.op, x, std::move(params));
  }
  return fail(fmt::format("activation={} is not supported", wanted));
}

}  // namespace

Result<Outputs> quick_gelu(Node& node) {
  const double alpha = node.real("alpha", 1.702);
  if (std::fabs(alpha - 1.702) < 1e-6) return emit(Op::QuickGelu, node.x(0));
  return emit_with(Op::Silu, node.x(0), {alpha});
}

Result<Outputs> fast_gelu(Node& node) {
  return emit(Op::GeluTanh, node.has(1) ? node.x(0) + node.x(1) : node.x(0));
}

Result<Outputs> bias_gelu(Node& node) {
  return emit(Op::Gelu, node.x(0) + node.x(1));
}

Result<Outputs> skip_layer_normalization(Node& node) {
  ATTACCA_TRY(const Value sum, normalised_sum(node, skipped(node, 4)));
  return with_sum(node, layer_norm(node, sum, 2, 3, node.real("epsilon", 1e-12)), sum);
}

Result<Outputs> skip_simplified_layer_normalization(Node& node) {
  ATTACCA_TRY(const Value sum, normalised_sum(node, skipped(node, 3)));
  return with_sum(node, rms_norm(node, sum, 2, node.rank(sum) - 1, node.real("epsilon", 1e-12)),
                  sum);
}

// Inputs: tokens, segments, tables of words, places and segments, gamma, beta, mask, places.
Result<Outputs> embed_layer_normalization(Node& node) {
  ATTACCA_TRY(const Value tokens, node.input(0));
  const ir::Shape shape = node.shape(tokens);
  if (shape.size() != 2)
    return fail(fmt::format("input_ids of shape {}", ir::to_string(shape)), {},
                "give [batch, length]");
  const auto looked_up = [&](size_t table, const Expr& index) {
    return emit(Op::Gather, std::vector<Expr>{node.x(table), index}, ir::AxisAttrs{0});
  };
  const Expr places = node.has(8) ? node.x(8) : counting(node, shape[1], 2, 1);
  Expr sum = looked_up(2, node.expr(tokens)) + looked_up(3, places);
  if (node.has(1) != node.has(4)) return fail("segment_ids without their table, or the reverse");
  if (node.has(1)) sum = sum + looked_up(4, node.x(1));
  ATTACCA_TRY(const Value value, normalised_sum(node, sum));
  const Expr y = layer_norm(node, value, 5, 6, node.real("epsilon", 1e-12));
  Expr counted = broadcast_to(node.expr(node.graph().literal(0, ir::DType::S32)), {shape[0]});
  if (node.has(7))
    counted = reduce(Op::Sum, cast(emit(Op::Eq, node.x(7), 1.0), ir::DType::S32), {1}, false);
  ATTACCA_TRY(const Value result, y.value);
  ATTACCA_TRY(const Value count, counted.value);
  return std::vector<Value>{result, count, value};
}

Result<Outputs> fused_mat_mul(Node& node) {
  if (node.integer("transBatchA", 0) != 0 || node.integer("transBatchB", 0) != 0)
    return fail("transposed batches are not supported", {}, "use transA and transB");
  Expr operands[] = {node.x(0), node.x(1)};
  for (size_t i = 0; i < 2; ++i) {
    ATTACCA_TRY(const Value value, operands[i].value);
    if (node.integer(i == 0 ? "transA" : "transB", 0) != 0 && node.rank(value) > 1)
      operands[i] = emit(Op::Transpose, operands[i]);
  }
  const Expr product = numpy_matmul(node, operands[0], operands[1]);
  const double alpha = node.real("alpha", 1.0);
  return alpha == 1.0 ? product : product * alpha;
}

Result<Outputs> fused_gemm(Node& node) {
  ATTACCA_TRY(const Outputs product, gemm(node));
  ATTACCA_TRY(const Expr result, activated(node, node.expr(*product.entries[0].value)));
  return result;
}

// With a tensor to add, input 3, before the activation.
Result<Outputs> fused_conv(Node& node) {
  ATTACCA_TRY(const Outputs product, convolution(node));
  const Expr y = node.expr(*product.entries[0].value);
  ATTACCA_TRY(const Expr result, activated(node, node.has(3) ? y + node.x(3) : y));
  return result;
}

}  // namespace attacca::import
