// Mixtures of experts: rows of tokens sorted by expert, multiplied in groups, and added up again.
#include <cmath>
#include <limits>

#include "fmt/format.h"

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

// Rows times the weights [E, N, K] at this input, and the bias [E, N] at the next one.
Expr projected(Node& node, const Routing& routing, const Expr& rows, size_t weights) {
  const Expr product =
      emit(Op::GroupedMatMul,
           std::vector<Expr>{rows, emit(Op::Transpose, node.x(weights)), routing.offsets});
  if (!node.has(weights + 1)) return product;
  return product + taken(node.x(weights + 1), routing.expert);
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

// Inputs 2, 3: the first projection and its bias; 6, 7: a second one, which the activated first
// one is multiplied by.
Expr activated(Node& node, const Routing& routing, const Expr& rows) {
  const std::string name = node.text("activation_type", "relu");
  const Expr first = projected(node, routing, rows, 2);
  if (name == "swiglu") {
    const int64_t fusion = node.integer("swiglu_fusion", 0);
    if (node.has(6) != (fusion == 0) || fusion < 0 || fusion > 2)
      return node.failed(fmt::format("swiglu_fusion={} {} fc3_experts_weights", fusion,
                                     node.has(6) ? "with" : "without"),
                         "give fc3_experts_weights, or 1 or 2 for weights that hold both halves");
    if (fusion == 0) return swiglu(node, first, projected(node, routing, rows, 6));
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
    return node.has(6) ? result * projected(node, routing, rows, 6) : result;
  }
  return node.failed(fmt::format("activation_type={} is not supported", name));
}

}  // namespace

// Inputs: tokens, scores of experts, then weights and bias of three projections.
Result<Outputs> mixture_of_experts(Node& node) {
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
  ATTACCA_TRY(const Routing routing, routing_of(node, scores, k));
  const Expr tokens = reshape(node.expr(input), {routing.tokens, shape.back()});
  const Expr inner = activated(node, routing, taken(tokens, routing.token()));
  const Expr outer = cast(projected(node, routing, inner, 4), DType::F32) * routing.weight;
  ATTACCA_TRY(const Value result, outer.value);
  const Dim columns = node.shape(result)[1];
  const Expr back = taken(outer, sorted_places(routing.order, 0));
  const Expr sum = reduce(Op::Sum, reshape(back, {routing.tokens, Dim(k), columns}), {1}, false);
  return reshape(cast(sum, node.dtype(input)), shape);
}

}  // namespace attacca::import
