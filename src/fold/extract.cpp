#include "fold/extract.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "fold/special_values.hpp"

namespace attacca::fold {
namespace {

using ir::Op;

constexpr int kMaxDepth = 6;  // of an expression over original values
// The least saving for which a product is taken apart: x / (1 + exp(-y)) stays as it is.
constexpr int kReassociation = 2;
constexpr int kMaxVisited = 256;  // values looked at to compare two expressions

Expression value_of(ir::Value value) {
  Expression result;
  result.kind = Expression::Kind::Value;
  result.value = value;
  return result;
}

Expression number_expression(double number) {
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
    Expression cheapest = own_op();
    int penalty = 0;  // in halves of a cost
    const auto& forms = egraph_[ref.cls].forms;
    for (const Form& form : forms) {
      const double ratio = ref.scale / form.scale;
      const bool bare = same(ratio, 1);
      if (!form.rule || (form.whole && !bare) || !is_eligible(form, forms, bare)) continue;
      auto expression = build(form, kMaxDepth);
      if (!expression) continue;
      expression = times(ratio, std::move(*expression));
      if (expression->kind != Expression::Kind::Apply || !fits(*expression)) continue;
      const int own_penalty = (form.recovered != kNone ? 2 * kReassociation : 0) + (bare ? 0 : 1);
      if (2 * saving(cheapest, *expression) + penalty - own_penalty <= 0) continue;
      if (!keeps_special_values(graph_, value_, *expression)) continue;
      cheapest = *expression;
      penalty = own_penalty;
      best = Choice{std::move(*expression), form.rule};
    }
    return best;
  }

 private:
  // A graph's own op is not taken apart, and tanh(x) is not turned into -tanh(-x).
  bool is_eligible(const Form& form, const std::vector<Form>& forms, bool bare) const {
    const auto* apply = std::get_if<Apply>(&form.node);
    const bool at_hand = apply && is_at_hand(*apply);
    if (definition(graph_[value_].op)) return bare && at_hand;
    if (!apply || at_hand) return true;
    return std::none_of(forms.begin(), forms.end(), [&](const Form& other) {
      const auto* rival = std::get_if<Apply>(&other.node);
      return rival && rival->op == apply->op && is_at_hand(*rival);
    });
  }

  // Whether its arguments are values of the graph.
  bool is_at_hand(const Apply& apply) const {
    return std::all_of(apply.args.begin(), apply.args.end(),
                       [&](Ref arg) { return value_equal_to(egraph_.find(arg)).has_value(); });
  }

  // A value before value_: the latest, which is most likely needed anyway, but a leaf rather than x
  // * 1.
  std::optional<ir::Value> value_equal_to(Ref ref) const {
    std::optional<ir::Value> result;
    for (const Anchor& anchor : egraph_[ref.cls].anchors) {
      if (!(anchor.value < value_) || !same(anchor.scale, ref.scale)) continue;
      if (!ir::is_elementwise(graph_[anchor.value].op)) return anchor.value;
      if (!result || *result < anchor.value) result = anchor.value;
    }
    return result;
  }

  Expression times(double ratio, Expression expression) const {
    if (same(ratio, 1)) return expression;
    if (same(ratio, -1)) return apply(Op::Neg, {}, {std::move(expression)});
    if (expression.kind == Expression::Kind::Number)
      return number_expression(expression.number * ratio);
    return apply(Op::Mul, {}, {std::move(expression), number_expression(constants_.write(ratio))});
  }

  // Expressions of values, results of rules, and sums and products of those. A function in a normal
  // form is written only if a value of the graph has it; with found_only, so are sums and products.
  std::optional<Expression> build(Ref ref, int depth, bool found_only = false) const {
    ref = egraph_.find(ref);
    if (is_constant(ref)) return number_expression(constants_.write(ref.scale));
    if (depth == 0) return std::nullopt;
    std::optional<Expression> best;
    const auto consider = [&](Expression expression) {
      if (!best || own_cost(expression) < own_cost(*best)) best = std::move(expression);
    };
    const auto& cls = egraph_[ref.cls];
    if (const auto value = value_equal_to(ref)) return value_of(*value);
    for (const Form& form : cls.forms) {
      if ((found_only && !form.rule) || (form.whole && !same(ref.scale, form.scale))) continue;
      if (auto expression = build(form, depth - 1))
        consider(times(ref.scale / form.scale, std::move(*expression)));
    }
    for (const Anchor& anchor : cls.anchors)
      if (anchor.value < value_) consider(times(ref.scale / anchor.scale, value_of(anchor.value)));
    return best;
  }

  std::optional<Expression> build(const Form& form, int depth) const {
    if (const auto* product = std::get_if<Product>(&form.node))
      return build(*product, depth, form.recovered != kNone);
    if (const auto* sum = std::get_if<Sum>(&form.node)) return build(*sum, depth);
    const auto* apply = std::get_if<Apply>(&form.node);
    return apply && form.rule ? build(*apply, depth) : std::nullopt;
  }

  std::optional<Expression> build(const Apply& node, int depth) const {
    std::vector<Expression> args;
    for (const Ref arg : node.args) {
      auto built = build(arg, depth);
      if (!built) return std::nullopt;
      args.push_back(std::move(*built));
    }
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

  std::optional<Expression> build(const Product& product, int depth, bool found_only) const {
    std::optional<Expression> numerator, denominator;
    for (const bool up : {true, false}) {
      auto& side = up ? numerator : denominator;
      for (const auto& factor : product.factors) {
        if ((factor.exponent > 0) != up) continue;
        auto base = build(Ref{1, factor.cls}, depth, found_only);
        if (!base) return std::nullopt;
        for (int i = 0; i < std::abs(factor.exponent); ++i)
          side = side ? apply(Op::Mul, {}, {std::move(*side), *base}) : base;
      }
    }
    if (!denominator) return numerator;
    if (!numerator) return apply(Op::Reciprocal, {}, {std::move(*denominator)});
    return apply(Op::Div, {}, {std::move(*numerator), std::move(*denominator)});
  }

  // Whether the expression has the value's type, and gates in it have two operands of its shape.
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

  // The value as the graph computes it.
  Expression own_op() const {
    const ir::Node& node = graph_[value_];
    std::vector<Expression> args;
    for (const ir::Value operand : node.operands) args.push_back(value_of(operand));
    return apply(node.op, node.params(), std::move(args));
  }

  // The cost that `after` saves over `before`, counting each needed value once. Values are expanded
  // from the latest on, until both need the same ones.
  int saving(const Expression& before, const Expression& after) const {
    std::set<ir::Value> open_before, open_after;
    collect(before, open_before);
    collect(after, open_after);
    int saved = own_cost(before) - own_cost(after);
    for (int visited = 0; open_before != open_after; ++visited) {
      if (visited == kMaxVisited) return 0;
      const auto latest = [](const auto& open) {
        return open.empty() ? -1 : static_cast<int64_t>(open.rbegin()->id);
      };
      const ir::Value value{
          static_cast<uint32_t>(std::max(latest(open_before), latest(open_after)))};
      const bool in_before = open_before.erase(value), in_after = open_after.erase(value);
      if (in_before) saved += open(value, open_before);
      if (in_after) saved -= open(value, open_after);
    }
    return saved;
  }

  // Adds what the value reads; returns what its own ops cost.
  int open(ir::Value value, std::set<ir::Value>& into) const {
    const ir::Node& node = graph_[value];
    if (!ir::is_elementwise(node.op)) return 0;
    if (const auto choice = choices_.find(value.id); choice != choices_.end()) {
      collect(choice->second.expression, into);
      return own_cost(choice->second.expression);
    }
    into.insert(node.operands.begin(), node.operands.end());
    return ir::info(node.op).cost;
  }

  static void collect(const Expression& expression, std::set<ir::Value>& into) {
    if (expression.kind == Expression::Kind::Value) into.insert(expression.value);
    for (const Expression& arg : expression.args) collect(arg, into);
  }

  const ir::Graph& graph_;
  const EGraph& egraph_;
  const Choices& choices_;
  const Constants& constants_;
  ir::Value value_;
};

}  // namespace

std::optional<Choice> choose(const ir::Graph& graph, const EGraph& egraph, const Choices& choices,
                             const Constants& constants, ir::Value value, Ref ref) {
  return Extractor(graph, egraph, choices, constants, value).best(egraph.find(ref));
}

}  // namespace attacca::fold
