#include "fold/extract.hpp"

#include <algorithm>
#include <cmath>
#include <queue>
#include <set>

namespace attacca::fold {
namespace {

using ir::Op;

constexpr int kMaxDepth = 6;  // of an expression over original values
// What a rewrite must save at least to take a product apart: x / (1 + exp(-y)) stays as it is.
constexpr int kReassociation = 2;
constexpr int kMaxVisited = 128;  // values costed; what lies beyond is common to all choices

Expression value_of(ir::Value value) {
  Expression result;
  result.kind = Expression::Kind::Value;
  result.value = value;
  return result;
}

Expression number_of(double number) {
  Expression result;
  result.number = number;
  return result;
}

Expression apply(Op op, std::vector<double> params, std::vector<Expression> args) {
  Expression result;
  result.kind = Expression::Kind::Apply;
  result.op = op;
  result.params = std::move(params);
  result.args = std::move(args);
  return result;
}

int own_cost(const Expression& expression) {
  if (expression.kind != Expression::Kind::Apply) return 0;
  int cost = ir::info(expression.op).cost;
  for (const Expression& arg : expression.args) cost += own_cost(arg);
  return cost;
}

class Extractor {
 public:
  Extractor(const ir::Graph& graph, const EGraph& egraph, const Choices& choices,
            const Constants& constants, ir::Value value)
      : graph_(graph), egraph_(egraph), choices_(choices), constants_(constants), value_(value) {}

  std::optional<Choice> best(Ref ref) {
    std::optional<Choice> best;
    int best_cost = -1;
    for (const Form& form : egraph_[ref.cls].forms) {
      if (!form.rule) continue;
      const double ratio = ref.scale / form.scale;
      if (form.whole && !same(ratio, 1)) continue;
      auto expression = build(form, kMaxDepth);
      if (!expression) continue;
      expression = times(ratio, std::move(*expression));
      if (expression->kind != Expression::Kind::Apply || !fits(*expression)) continue;
      if (best_cost < 0) best_cost = cost_of_value();
      const int cost = cost_of(*expression) + (form.recovered != kNone ? kReassociation : 0);
      if (cost >= best_cost) continue;
      best_cost = cost;
      best = Choice{std::move(*expression), form.rule};
    }
    return best;
  }

 private:
  Expression times(double ratio, Expression expression) const {
    if (same(ratio, 1)) return expression;
    if (same(ratio, -1)) return apply(Op::Neg, {}, {std::move(expression)});
    if (expression.kind == Expression::Kind::Number) return number_of(expression.number * ratio);
    return apply(Op::Mul, {}, {std::move(expression), number_of(constants_.write(ratio))});
  }

  std::optional<Expression> build(Ref ref, int depth, bool recovered_only = false) const {
    ref = egraph_.find(ref);
    if (is_constant(ref)) return number_of(constants_.write(ref.scale));
    if (depth == 0) return std::nullopt;
    std::optional<Expression> best;
    const auto consider = [&](Expression expression) {
      if (!best || own_cost(expression) < own_cost(*best)) best = std::move(expression);
    };
    const auto& cls = egraph_[ref.cls];
    for (const Anchor& anchor : cls.anchors)
      if (anchor.value < value_ && same(anchor.scale, ref.scale)) return value_of(anchor.value);
    for (const Form& form : cls.forms) {
      if ((recovered_only && !form.rule) || (form.whole && !same(ref.scale, form.scale))) continue;
      if (auto expression = build(form, depth - 1))
        consider(times(ref.scale / form.scale, std::move(*expression)));
    }
    for (const Anchor& anchor : cls.anchors)
      if (anchor.value < value_) consider(times(ref.scale / anchor.scale, value_of(anchor.value)));
    return best;
  }

  std::optional<Expression> build(const Form& form, int depth) const {
    if (const auto* product = std::get_if<Product>(&form.node))
      return build(*product, depth, form.recovered);
    if (const auto* sum = std::get_if<Sum>(&form.node)) return build(*sum, depth);
    if (const auto* apply = std::get_if<Apply>(&form.node)) return build(*apply, depth);
    return value_of(std::get<Leaf>(form.node).value);
  }

  std::optional<Expression> build(const Apply& node, int depth) const {
    std::vector<Expression> args;
    for (const Ref arg : node.args) {
      auto built = build(arg, depth);
      if (!built) return std::nullopt;
      args.push_back(std::move(*built));
    }
    if (node.op == Op::Gt || node.op == Op::Ge) args.push_back(number_of(0));
    std::vector<double> params;
    for (const double param : node.params) params.push_back(constants_.write(param));
    return apply(node.op, std::move(params), std::move(args));
  }

  std::optional<Expression> build(const Sum& sum, int depth) const {
    // The constant, which sorts first, goes last.
    std::vector<Sum::Term> terms = sum.terms;
    if (terms[0].cls == kOne) std::rotate(terms.begin(), terms.begin() + 1, terms.end());
    std::optional<Expression> total;
    for (const auto& term : terms) {
      auto built = build(Ref{term.coefficient, term.cls}, depth);
      if (!built) return std::nullopt;
      total = total ? apply(Op::Add, {}, {std::move(*total), std::move(*built)}) : built;
    }
    return total;
  }

  std::optional<Expression> build(const Product& product, int depth, ClassId recovered) const {
    std::optional<Expression> numerator, denominator;
    for (const bool up : {true, false}) {
      auto& side = up ? numerator : denominator;
      for (const auto& factor : product.factors) {
        if ((factor.exponent > 0) != up) continue;
        auto base = build(Ref{1, factor.cls}, depth, factor.cls == recovered);
        if (!base) return std::nullopt;
        for (int i = 0; i < std::abs(factor.exponent); ++i)
          side = side ? apply(Op::Mul, {}, {std::move(*side), *base}) : base;
      }
    }
    if (!denominator) return numerator;
    if (!numerator) return apply(Op::Reciprocal, {}, {std::move(*denominator)});
    return apply(Op::Div, {}, {std::move(*numerator), std::move(*denominator)});
  }

  // The type of the value, and gates of two operands of its shape.
  bool fits(const Expression& expression) const {
    const auto shape = shape_of(expression);
    return shape && *shape == graph_.type(value_).shape;
  }

  std::optional<ir::Shape> shape_of(const Expression& expression) const {
    switch (expression.kind) {
      case Expression::Kind::Number:
        return ir::Shape{};
      case Expression::Kind::Value: {
        const ir::Type& type = graph_.type(expression.value);
        if (type.dtype != graph_.type(value_).dtype) return std::nullopt;
        return type.shape;
      }
      case Expression::Kind::Apply:
        break;
    }
    std::optional<ir::Shape> result = ir::Shape{};
    const Rule* rule = definition(expression.op);
    for (const Expression& arg : expression.args) {
      const auto shape = shape_of(arg);
      if (!shape) return std::nullopt;
      if (rule && rule->gate && *shape != graph_.type(value_).shape) return std::nullopt;
      result = ir::broadcast(*result, *shape);
      if (!result) return std::nullopt;
    }
    return result;
  }

  int cost_of_value() {
    const ir::Node& node = graph_[value_];
    pending_.assign(node.operands.begin(), node.operands.end());
    return ir::info(node.op).cost + cost_of_pending();
  }

  int cost_of(const Expression& expression) {
    pending_.clear();
    collect(expression);
    return own_cost(expression) + cost_of_pending();
  }

  void collect(const Expression& expression) {
    if (expression.kind == Expression::Kind::Value) pending_.push_back(expression.value);
    for (const Expression& arg : expression.args) collect(arg);
  }

  // The ops that the pending values need, each value once, the latest first.
  int cost_of_pending() {
    std::set<ir::Value> open(pending_.begin(), pending_.end());
    int cost = 0;
    for (int visited = 0; !open.empty() && visited < kMaxVisited; ++visited) {
      const ir::Value value = *open.rbegin();
      open.erase(value);
      const ir::Node& node = graph_[value];
      if (!ir::is_elementwise(node.op)) continue;
      if (const auto choice = choices_.find(value.id); choice != choices_.end()) {
        cost += own_cost(choice->second.expression);
        pending_.clear();
        collect(choice->second.expression);
        open.insert(pending_.begin(), pending_.end());
      } else {
        cost += ir::info(node.op).cost;
        open.insert(node.operands.begin(), node.operands.end());
      }
    }
    return cost;
  }

  const ir::Graph& graph_;
  const EGraph& egraph_;
  const Choices& choices_;
  const Constants& constants_;
  ir::Value value_;
  std::vector<ir::Value> pending_;
};

}  // namespace

std::optional<Choice> choose(const ir::Graph& graph, const EGraph& egraph, const Choices& choices,
                             const Constants& constants, ir::Value value, Ref ref) {
  return Extractor(graph, egraph, choices, constants, value).best(egraph.find(ref));
}

}  // namespace attacca::fold
