// Mixtures of experts: rows of tokens sorted by expert, multiplied in groups, and added up again.
#include <cmath>
#include <limits>

#include "fmt/format.h"

#include "import/onnx/microsoft/blocks.hpp"
#include "import/onnx/ops.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Value;

Expr taken(const Expr& x, const Expr& index) {
  return emit(Op::Gather, std::vector<Expr>{x, index}, ir::AxisAttrs{0});
}

Expr sorted_places(const Expr& x, int64_t axis) {
  return emit(Op::Argsort, std::vector<Expr>{x}, ir::AxisAttrs{axis});
}

// The rows of all tokens for all their experts, sorted by expert. A token stands in k rows.
struct Routing {
  Dim tokens, experts;
  int64_t k = 1;
  Expr order;    // s64 [R]: of the sorted rows, the place before sorting
  Expr expert;   // s64 [R]: of the sorted rows
  Expr weight;   // f32 [R, 1]: of the sorted rows
  Expr offsets;  // s32 [experts]

  Expr token() const { return emit(Op::Div, order, static_cast<double>(k)); }
};

// The k most probable experts of each token, the first of equal ones.
Result<Routing> routing_of(Node& node, Value scores, int64_t k) {
  const Dim tokens = node.shape(scores)[0], experts = node.shape(scores)[1], rows = tokens * Dim(k);
  ATTACCA_TRY(const Value wide, cast(node.expr(scores), DType::F32).value);
  ATTACCA_TRY(const Value probability, ir::softmax(node.graph(), wide, 1));
  const Expr chosen = slice_axis(sorted_places(-node.expr(wide), 1), 1, 0, k);
  const Expr first = counting(node, tokens, 2, 0) * number_of(node, experts);
  Expr weight = taken(reshape(node.expr(probability), {tokens * experts}), first + chosen);
  if (node.integer("normalize_routing_weights", 0) != 0)
    weight = weight / reduce(Op::Sum, weight, {1}, true);
  const Expr flat = reshape(chosen, {rows}), order = sorted_places(flat, 0);
  const Expr expert = taken(flat, order);
  const Expr within =
      emit(Op::Le, std::vector<Expr>{reshape(flat, {rows, 1}), counting(node, experts, 2, 1)});
  return Routing{tokens,
                 experts,
                 k,
                 order,
                 expert,
                 reshape(taken(reshape(weight, {rows}), order), {rows, 1}),
                 reduce(Op::Sum, cast(within, DType::S32), {0}, false)};
}

// A projection's weights [E, N, K], and the bias [E, N] if it has one.
struct Projection {
  Expr weights;
  std::optional<Expr> bias;
};

struct Mixture {
  Node& node;
  Routing routing;
  Projection up, down;
  std::optional<Projection> third;  // what the activated rows are multiplied by
};

Expr projected(const Routing& routing, const Expr& rows, const Projection& by) {
  const Expr product = emit(
      Op::GroupedMatMul, std::vector<Expr>{rows, emit(Op::Transpose, by.weights), routing.offsets});
  return by.bias ? product + taken(*by.bias, routing.expert) : product;
}

Expr swiglu(Node& node, const Expr& gate, const Expr& linear) {
  const double alpha = node.real("activation_alpha", 1), beta = node.real("activation_beta", 0);
  const double limit = node.real("swiglu_limit", std::numeric_limits<double>::infinity());
  if (std::isfinite(limit))
    return emit(Op::ClampedSwiGlu, {gate, linear}, ir::ElementwiseAttrs{{alpha, limit, beta}, {}});
  return emit_with(Op::Silu, gate, {alpha}) * (beta == 0 ? linear : linear + beta);
}

struct ExpertActivation {
  std::string_view name;
  std::optional<Op> op;
};
constexpr ExpertActivation kExpertActivations[] = {
    {"relu", Op::Relu}, {"gelu", Op::GeluTanh}, {"silu", Op::Silu}, {"identity", std::nullopt}};

Expr activated(const Mixture& layer, const Expr& rows) {
  Node& node = layer.node;
  const std::string name = node.text("activation_type", "relu");
  const Expr first = projected(layer.routing, rows, layer.up);
  if (name == "swiglu") {
    const int64_t fusion = node.integer("swiglu_fusion", 0);
    if (layer.third.has_value() != (fusion == 0) || fusion < 0 || fusion > 2)
      return node.failed(fmt::format("swiglu_fusion={} {} fc3_experts_weights", fusion,
                                     layer.third ? "with" : "without"),
                         "give fc3_experts_weights, or 1 or 2 for weights that hold both halves");
    if (fusion == 0) return swiglu(node, first, projected(layer.routing, rows, *layer.third));
    if (!first.value) return first;
    const Dim columns = node.shape(*first.value)[1];
    const auto half = divide(columns, Dim(2));
    if (!half) return node.failed(fmt::format("{} columns have no halves", to_string(columns)));
    return fusion == 1
               ? swiglu(node, slice_axis(first, 1, 0, columns, 2),
                        slice_axis(first, 1, 1, columns, 2))
               : swiglu(node, slice_axis(first, 1, 0, *half), slice_axis(first, 1, *half, columns));
  }
  for (const ExpertActivation& activation : kExpertActivations) {
    if (activation.name != name) continue;
    const Expr result = activation.op ? emit(*activation.op, first) : first;
    return layer.third ? result * projected(layer.routing, rows, *layer.third) : result;
  }
  return node.failed(fmt::format("activation_type={} is not supported", name));
}

Result<Routing> read_routing(Node& node) {
  ATTACCA_TRY(const Value input, node.input(0));
  ATTACCA_TRY(const Value scores, node.input(1));
  const ir::Shape shape = node.shape(input);
  if (shape.size() < 2 || node.rank(scores) != 2)
    return fail(fmt::format("tokens of shape {} with scores of shape {}", ir::to_string(shape),
                            ir::to_string(node.shape(scores))),
                {}, "give [tokens, size] or [batch, length, size], and [tokens, experts]");
  for (const char* attribute : {"use_sparse_mixer", "swiglu_limit_after_activation"})
    if (node.integer(attribute, 0) != 0) return fail(fmt::format("{} is not supported", attribute));
  const int64_t k = node.integer("k", 1);
  const Dim experts = node.shape(scores)[1], rest = experts - Dim(k);
  if (k < 1 || (rest.is_static() && rest.value() < 0))
    return fail(fmt::format("the {} best of {} experts", k, to_string(experts)));
  return routing_of(node, scores, k);
}

Result<Outputs> mixture(const Mixture& layer) {
  Node& node = layer.node;
  const Routing& routing = layer.routing;
  ATTACCA_TRY(const Value input, node.input(0));
  const ir::Shape shape = node.shape(input);
  const Expr tokens = reshape(node.expr(input), {routing.tokens, shape.back()});
  const Expr inner = activated(layer, taken(tokens, routing.token()));
  const Expr outer = cast(projected(routing, inner, layer.down), DType::F32) * routing.weight;
  ATTACCA_TRY(const Value result, outer.value);
  const Dim columns = node.shape(result)[1];
  const Expr back = taken(outer, sorted_places(routing.order, 0));
  const Expr sum =
      reduce(Op::Sum, reshape(back, {routing.tokens, Dim(routing.k), columns}), {1}, false);
  return reshape(cast(sum, node.dtype(input)), shape);
}

std::optional<Expr> given(Node& node, size_t input) {
  return node.has(input) ? std::optional(node.x(input)) : std::nullopt;
}

// Of QMoE: inputs from `first` on are codes, scales and bias; `zeros`: the zero points. `number`:
// of the projection, for attributes.
Result<Projection> quantised_projection(Node& node, size_t first, size_t zeros, int number) {
  ATTACCA_TRY(const Value input, node.input(0));
  const std::string own = fmt::format("fc{}_expert_weight_bits", number);
  QuantisedExperts from{.codes = first,
                        .scales = first + 1,
                        .zeros = {},
                        .block = node.integer("block_size", 0),
                        .bits = node.integer(own, node.integer("expert_weight_bits", 4)),
                        .dtype = node.dtype(input)};
  if (node.has(zeros)) from.zeros = zeros;
  ATTACCA_TRY(const Value weights, expert_weights(node, from));
  return Projection{node.expr(weights), given(node, first + 2)};
}

}  // namespace

// Inputs: tokens, scores of experts, then weights and bias of three projections.
Result<Outputs> mixture_of_experts(Node& node) {
  ATTACCA_TRY(const Routing routing, read_routing(node));
  const auto projection = [&](size_t input) {
    return Projection{node.x(input), given(node, input + 1)};
  };
  return mixture({node, routing, projection(2), projection(4),
                  node.has(6) ? std::optional(projection(6)) : std::nullopt});
}

// Inputs: tokens, scores, then codes, scales and bias of three projections, their zero points, and
// weights of experts other than the scores'.
Result<Outputs> quantised_mixture_of_experts(Node& node) {
  if (const std::string type = node.text("quant_type", "int"); type != "int")
    return fail(fmt::format("quant_type={} is not supported", type));
  if (node.integer("weights_prepacked", -1) != 0)
    return fail("weights_prepacked=-1 and 1 leave the weights' layout to the provider", {},
                "export weights as quantised, with weights_prepacked=0");
  for (size_t input = 14; input < node.inputs(); ++input)
    if (node.has(input)) return fail(fmt::format("input {} is not supported", input));
  ATTACCA_TRY(const Routing routing, read_routing(node));
  ATTACCA_TRY(Projection up, quantised_projection(node, 2, 11, 1));
  ATTACCA_TRY(Projection down, quantised_projection(node, 5, 12, 2));
  std::optional<Projection> third;
  if (node.has(8)) {
    ATTACCA_TRY(third, quantised_projection(node, 8, 13, 3));
  }
  return mixture({node, routing, std::move(up), std::move(down), std::move(third)});
}

}  // namespace attacca::import
