// Normal forms of functions: ops that are forms of other ops, and parts of the argument (a sign, a
// positive factor) that can be moved outside.
#include <algorithm>
#include <cmath>
#include <limits>

#include "fold/egraph.hpp"

namespace attacca::fold {
namespace {

using ir::Op;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMaxIntegerPower = 8;

Ref scaled(Ref ref, double factor) {
  return {ref.scale * factor, ref.cls};
}

std::optional<Ref> folded(Op op, std::span<const double> params, std::span<const Ref> args) {
  std::vector<double> values;
  for (const Ref arg : args) values.push_back(arg.scale);
  const double value = ir::evaluate(op, values, params);
  return std::isfinite(value) ? std::optional(constant(value)) : std::nullopt;
}

}  // namespace

std::optional<Ref> EGraph::apply(Op op, std::span<const double> params, std::span<const Ref> args,
                                 Cancel cancel) {
  std::vector<Ref> x;
  for (const Ref arg : args) x.push_back(find(arg));
  const ir::TypeRule rule = ir::info(op).rule;
  const bool numeric = rule == ir::TypeRule::Any || rule == ir::TypeRule::Float;
  if (numeric && std::all_of(x.begin(), x.end(), is_constant)) return folded(op, params, x);
  switch (op) {
    case Op::Add:
      return sum(x, cancel);
    case Op::Sub:
      return sum(std::array{x[0], scaled(x[1], -1)}, cancel);
    case Op::Neg:
      return scaled(x[0], -1);
    case Op::Mul:
      return product(std::array{Power{x[0], 1}, Power{x[1], 1}}, cancel);
    case Op::Div:
      return product(std::array{Power{x[0], 1}, Power{x[1], -1}}, cancel);
    case Op::Reciprocal:
      return product(std::array{Power{x[0], -1}}, cancel);
    case Op::Square:
      return product(std::array{Power{x[0], 2}}, cancel);
    case Op::Pow:
      return power(x[0], x[1]);
    case Op::Rsqrt:
      return product(std::array{Power{opaque(Op::Sqrt, {}, {x[0]}), -1}}, cancel);
    case Op::Exp:
      return exp(x[0]);
    case Op::Expm1: {
      const auto e = exp(x[0]);
      return e ? sum(std::array{*e, constant(-1)}, cancel) : std::nullopt;
    }
    case Op::Log:
      return log(x[0]);
    case Op::Log1p: {
      const auto one_more = sum(std::array{x[0], constant(1)}, cancel);
      return one_more ? log(*one_more) : std::nullopt;
    }
    case Op::Erf: {
      const double sign = x[0].scale < 0 ? -1 : 1;
      return scaled(opaque(op, {}, {scaled(x[0], sign)}), sign);
    }
    case Op::Erfc: {
      const auto erf = apply(Op::Erf, {}, x, cancel);
      return erf ? sum(std::array{constant(1), scaled(*erf, -1)}, Cancel::Allow) : std::nullopt;
    }
    case Op::Abs:
      return scaled(opaque(op, {}, {{1, x[0].cls}}), std::fabs(x[0].scale));
    case Op::Clamp:
      return clamp(x[0], params[0], params[1]);
    case Op::Max:
    case Op::Min:
      return extremum(op, x[0], x[1]);
    case Op::Lt:
    case Op::Le:
    case Op::Gt:
    case Op::Ge:
      return compare(op, x[0], x[1]);
    case Op::Where:
      return where(x[0], x[1], x[2]);
    default:
      return definition(op) ? defined(op, params, x)
                            : opaque(op, {params.begin(), params.end()}, std::move(x));
  }
}

std::optional<Ref> EGraph::power(Ref x, Ref exponent) {
  if (!is_constant(exponent) || is_constant(x)) return opaque(Op::Pow, {}, {x, exponent});
  const double e = exponent.scale;
  if (e != 0 && e == std::nearbyint(e) && std::fabs(e) <= kMaxIntegerPower)
    return product(std::array{Power{x, static_cast<int>(e)}}, Cancel::Forbid);
  if (std::fabs(e) == 0.5)
    return product(std::array{Power{opaque(Op::Sqrt, {}, {x}), e > 0 ? 1 : -1}}, Cancel::Forbid);
  return opaque(Op::Pow, {}, {x, exponent});
}

std::optional<Ref> EGraph::exp(Ref x) {
  if (is_constant(x)) return folded(Op::Exp, {}, std::array{x});
  // exp(n * log(y)) is y^n.
  if (const Apply* log = as_apply(x.cls, Op::Log))
    if (x.scale == std::nearbyint(x.scale) && std::fabs(x.scale) <= kMaxIntegerPower)
      return product(std::array{Power{log->args[0], static_cast<int>(x.scale)}}, Cancel::Allow);
  return opaque(Op::Exp, {}, {x});
}

std::optional<Ref> EGraph::log(Ref x) {
  if (is_constant(x)) return folded(Op::Log, {}, std::array{x});
  // log(1 / y) is -log(y): the form whose polynomial of exponentials is no denominator is kept.
  for (const auto& factor : factors(x.cls)) {
    if (factor.exponent > 0 || classes_[factor.cls].exponential_of == kNone) continue;
    const auto inverse = product(std::array{Power{x, -1}}, Cancel::Allow);
    return inverse ? scaled(opaque(Op::Log, {}, {*inverse}), -1) : std::optional<Ref>();
  }
  return opaque(Op::Log, {}, {x});
}

std::optional<Ref> EGraph::clamp(Ref x, double low, double high) {
  if (is_constant(x)) return folded(Op::Clamp, std::array{low, high}, std::array{x});
  // A bound that a factor would make zero or infinite is not moved.
  const auto is_usable = [](double bound) {
    const double magnitude = std::fabs(bound);
    return bound == 0 || std::isinf(bound) || (magnitude > 1e-100 && magnitude < 1e100);
  };
  if (!(low <= high) || !is_usable(low) || !is_usable(high)) return std::nullopt;
  const double s = x.scale;
  low /= s;
  high /= s;
  if (s < 0) std::swap(low, high);
  ClassId cls = x.cls;
  if (const Apply* inner = as_apply(cls, Op::Clamp)) {
    const double inner_low = inner->params[0], inner_high = inner->params[1];
    const Ref arg = find(inner->args[0]);
    if (arg.scale == 1) {
      cls = arg.cls;
      low = std::clamp(inner_low, low, high);
      high = std::clamp(inner_high, low, high);
    }
  }
  if (low == -kInfinity && high == kInfinity) return Ref{s, cls};
  if (low == high) return std::nullopt;
  return scaled(opaque(Op::Clamp, {low, high}, {{1, cls}}), s);
}

std::optional<Ref> EGraph::extremum(Op op, Ref x, Ref y) {
  if (is_constant(x)) std::swap(x, y);
  if (is_constant(y))
    return op == Op::Max ? clamp(x, y.scale, kInfinity) : clamp(x, -kInfinity, y.scale);
  if (same(x, y)) return x;
  const auto order = [](Ref a, Ref b) {
    if (a.cls != b.cls) return a.cls < b.cls;
    const double p = std::fabs(a.scale), q = std::fabs(b.scale);
    return same(p, q) ? a.scale > b.scale : p > q;
  };
  if (!order(x, y)) std::swap(x, y);
  // max(-a, -b) is -min(a, b).
  const double s = x.scale;
  if (s < 0) op = op == Op::Max ? Op::Min : Op::Max;
  return scaled(opaque(op, {}, {scaled(x, 1 / s), scaled(y, 1 / s)}), s);
}

// x > y as x - y > 0, up to a positive factor.
std::optional<Ref> EGraph::compare(Op op, Ref x, Ref y) {
  if (op == Op::Lt || op == Op::Le) std::swap(x, y);
  const auto difference = sum(std::array{x, scaled(y, -1)}, Cancel::Allow);
  if (!difference || is_constant(*difference)) return std::nullopt;
  return opaque(op == Op::Lt || op == Op::Gt ? Op::Gt : Op::Ge, {},
                {{difference->scale > 0 ? 1.0 : -1.0, difference->cls}});
}

std::optional<Ref> EGraph::where(Ref condition, Ref x, Ref y) {
  const double s = x.scale != 0 ? x.scale : y.scale;
  if (s == 0 || is_constant(condition)) return std::nullopt;
  return scaled(opaque(Op::Where, {}, {condition, scaled(x, 1 / s), scaled(y, 1 / s)}), s);
}

// By its defining rule: silu(x, alpha=a) is what x * sigmoid(a * x) is.
std::optional<Ref> EGraph::defined(Op op, std::span<const double> params,
                                   std::span<const Ref> args) {
  if (std::any_of(args.begin(), args.end(), is_constant)) return std::nullopt;
  const Rule& rule = *definition(op);
  Bindings bindings;
  for (size_t i = 0; i < args.size(); ++i)
    bindings.variables[rule.result.children[i].variable] = args[i];
  for (size_t i = 0; i < params.size(); ++i)
    for (size_t capture = 0; capture < kCaptures.size(); ++capture)
      if (rule.result.params[i].exponents[capture]) bindings.captures[capture] = params[i];
  const auto value = instantiate(rule.pattern, bindings);
  if (value)
    add_form(*value, {.node = Apply{op, {params.begin(), params.end()}, {args.begin(), args.end()}},
                      .scale = 1,
                      .rule = &rule,
                      .whole = rule.whole});
  return value;
}

std::optional<Ref> EGraph::instantiate(const Pattern& pattern, const Bindings& bindings) {
  switch (pattern.kind) {
    case Pattern::Kind::Variable:
      return bindings.variables[pattern.variable];
    case Pattern::Kind::Number: {
      const auto value = pattern.number.value(bindings.captures);
      return value ? std::optional(constant(*value)) : std::nullopt;
    }
    case Pattern::Kind::Sum: {
      std::vector<Ref> addends;
      for (const Pattern& child : pattern.children) {
        const auto addend = instantiate(child, bindings);
        if (!addend) return std::nullopt;
        addends.push_back(*addend);
      }
      return sum(addends, Cancel::Allow);
    }
    case Pattern::Kind::Product: {
      const auto coefficient = pattern.number.value(bindings.captures);
      if (!coefficient) return std::nullopt;
      std::vector<Power> powers = {{constant(*coefficient), 1}};
      for (size_t i = 0; i < pattern.children.size(); ++i) {
        const auto base = instantiate(pattern.children[i], bindings);
        if (!base) return std::nullopt;
        powers.push_back({*base, pattern.exponents[i]});
      }
      return product(powers, Cancel::Allow);
    }
    case Pattern::Kind::Apply: {
      std::vector<double> params;
      for (const Number& number : pattern.params) {
        const auto value = number.value(bindings.captures);
        if (!value) return std::nullopt;
        params.push_back(*value);
      }
      std::vector<Ref> args;
      for (const Pattern& child : pattern.children) {
        const auto arg = instantiate(child, bindings);
        if (!arg) return std::nullopt;
        args.push_back(*arg);
      }
      return apply(pattern.op, params, args, Cancel::Allow);
    }
  }
  return std::nullopt;
}

}  // namespace attacca::fold
