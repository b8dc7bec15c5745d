#include "fold/match.hpp"

#include <algorithm>
#include <cmath>

namespace attacca::fold {
namespace {

using ir::Op;
using Kind = Pattern::Kind;

constexpr int kMaxProposals = 24;  // of one pattern in one class

bool is_bound(const Number& number, const Bindings& bindings) {
  return number.value(bindings.captures).has_value();
}

// Binds the one free capture of number so that it equals value; nullopt if it cannot.
std::optional<Bindings> bind(const Number& number, double value, const Bindings& bindings) {
  if (const auto known = number.value(bindings.captures))
    return same(*known, value) ? std::optional(bindings) : std::nullopt;
  Bindings bound = bindings;
  for (size_t i = 0; i < kCaptures.size(); ++i) {
    if (number.exponents[i] == 0 || bindings.captures[i]) continue;
    bound.captures[i] = 1;
    const auto rest = number.value(bound.captures);
    if (!rest || std::abs(number.exponents[i]) != 1) return std::nullopt;
    bound.captures[i] = number.exponents[i] > 0 ? value / *rest : *rest / value;
    return bound;
  }
  return std::nullopt;
}

bool is_odd(Op op) {
  return op == Op::Erf || op == Op::Tanh;
}

// max(-x, -y) is -min(x, y).
bool may_be(Op wanted, Op op) {
  return wanted == op || (wanted == Op::Max && op == Op::Min) ||
         (wanted == Op::Min && op == Op::Max);
}

// f(t * x) == t * f(x) for positive t; for negative t, max and min change places.
bool is_homogeneous(Op op) {
  return op == Op::Clamp || op == Op::Max || op == Op::Min || op == Op::Abs || op == Op::Relu ||
         op == Op::LeakyRelu || op == Op::Where;
}

}  // namespace

bool is_bound(const Pattern& pattern, const Bindings& bindings) {
  if (pattern.kind == Kind::Variable) return bindings.variables[pattern.variable].has_value();
  return is_bound(pattern.number, bindings) &&
         std::all_of(pattern.params.begin(), pattern.params.end(),
                     [&](const Number& param) { return is_bound(param, bindings); }) &&
         std::all_of(pattern.children.begin(), pattern.children.end(),
                     [&](const Pattern& child) { return is_bound(child, bindings); });
}

void Matcher::propose(const Pattern& pattern, ClassId cls, const Then& then) {
  proposals_ = 0;
  up_to_scale(pattern, cls, {}, [&](const Bindings& bindings) {
    if (proposals_++ < kMaxProposals) then(bindings);
  });
}

std::vector<double> Matcher::anchored_scales(ClassId cls) const {
  std::vector<double> result;
  for (const Anchor& anchor : graph_[cls].anchors)
    if (std::none_of(result.begin(), result.end(),
                     [&](double known) { return same(known, anchor.scale); }))
      result.push_back(anchor.scale);
  if (result.empty()) result.push_back(1);
  return result;
}

std::vector<std::vector<Product::Factor>> Matcher::products(ClassId cls) const {
  std::vector<std::vector<Product::Factor>> result;
  for (const Form& form : graph_[cls].forms)
    if (const auto* product = std::get_if<Product>(&form.node)) result.push_back(product->factors);
  result.push_back({{cls, 1}});
  return result;
}

void Matcher::exact(const Pattern& pattern, Ref ref, const Bindings& bindings, const Then& then) {
  ref = graph_.find(ref);
  switch (pattern.kind) {
    case Kind::Variable: {
      const auto& bound = bindings.variables[pattern.variable];
      if (bound) {
        if (same(graph_.find(*bound), ref)) then(bindings);
        return;
      }
      Bindings with = bindings;
      with.variables[pattern.variable] = ref;
      return then(with);
    }
    case Kind::Number:
      if (!is_constant(ref)) return;
      if (const auto bound = bind(pattern.number, ref.scale, bindings)) then(*bound);
      return;
    case Kind::Sum:
      return exact_sum(pattern, ref, bindings, then);
    case Kind::Product:
      return exact_product(pattern, ref, bindings, then);
    case Kind::Apply: {
      const auto forms = graph_[ref.cls].forms;
      for (const Form& form : forms)
        if (const auto* apply = std::get_if<Apply>(&form.node);
            apply && may_be(pattern.op, apply->op))
          arguments(pattern, *apply, ref.scale / form.scale, bindings, then);
    }
  }
}

void Matcher::up_to_scale(const Pattern& pattern, ClassId cls, const Bindings& bindings,
                          const Then& then) {
  cls = graph_.find({1, cls}).cls;
  switch (pattern.kind) {
    case Kind::Variable: {
      const auto& bound = bindings.variables[pattern.variable];
      if (bound) {
        if (graph_.find(*bound).cls == cls) then(bindings);
        return;
      }
      for (const double scale : anchored_scales(cls)) exact(pattern, {scale, cls}, bindings, then);
      return;
    }
    case Kind::Number:
      return;
    case Kind::Sum:
      return sum_up_to_scale(pattern, cls, bindings, then);
    case Kind::Product:
      for (const auto& factors : products(cls)) this->factors(pattern, 0, factors, bindings, then);
      return;
    case Kind::Apply: {
      const auto forms = graph_[cls].forms;
      for (const Form& form : forms) {
        const auto* apply = std::get_if<Apply>(&form.node);
        if (!apply || !may_be(pattern.op, apply->op)) continue;
        for (const double scale : scales(pattern, *apply, bindings))
          arguments(pattern, *apply, scale, bindings, then);
      }
    }
  }
}

// The multiples of apply for which the pattern's arguments are tried.
std::vector<double> Matcher::scales(const Pattern& pattern, const Apply& apply,
                                    const Bindings& bindings) const {
  if (is_odd(apply.op)) return {1, -1};
  if (!is_homogeneous(apply.op)) return {1};
  std::vector<double> result;
  for (size_t i = 0; i < pattern.params.size() && apply.op == Op::Clamp; ++i) {
    const auto wanted = pattern.params[i].value(bindings.captures);
    if (!wanted || *wanted == 0 || !std::isfinite(*wanted)) continue;
    const double straight = *wanted / apply.params[i], flipped = *wanted / apply.params[1 - i];
    if (std::isfinite(straight) && straight > 0) result.push_back(straight);
    if (std::isfinite(flipped) && flipped < 0) result.push_back(flipped);
    return result;
  }
  for (size_t i = apply.op == Op::Where ? 1 : 0; i < apply.args.size(); ++i) {
    const Ref arg = apply.args[i];
    if (is_constant(arg)) continue;
    for (const double scale : anchored_scales(graph_.find(arg).cls))
      result.push_back(scale / arg.scale);
    return result;
  }
  return result;
}

void Matcher::arguments(const Pattern& pattern, const Apply& apply, double scale,
                        const Bindings& bindings, const Then& then) {
  double factor = 1;  // of the arguments
  if (is_homogeneous(apply.op)) {
    const bool flips = apply.op == Op::Max || apply.op == Op::Min;
    const bool either = apply.op == Op::Where || apply.op == Op::Clamp;
    if (!either && (scale < 0) != (flips && apply.op != pattern.op)) return;
    factor = scale;
  } else if (is_odd(apply.op)) {
    if (!same(std::fabs(scale), 1)) return;
    factor = scale;
  } else if (!same(scale, 1)) {
    return;
  }
  std::optional<Bindings> bound = bindings;
  for (size_t i = 0; i < apply.params.size() && bound; ++i) {
    const bool clamp = apply.op == Op::Clamp;
    const double param = clamp && factor < 0 ? apply.params[1 - i] : apply.params[i];
    bound = bind(pattern.params[i], clamp ? param * factor : param, *bound);
  }
  if (!bound) return;
  const auto arg = [&](size_t i) { return Ref{apply.args[i].scale * factor, apply.args[i].cls}; };
  const auto pair = [&](size_t p, size_t i, size_t q, size_t j) {
    exact(pattern.children[p], arg(i), *bound,
          [&](const Bindings& first) { exact(pattern.children[q], arg(j), first, then); });
  };
  // A pattern's conditions bind no names that its branches do not bind. Arguments that are
  // variables are bound first.
  if (apply.op == Op::Where) {
    const bool last = pattern.children[2].kind == Kind::Variable;
    return last ? pair(2, 2, 1, 1) : pair(1, 1, 2, 2);
  }
  if (apply.args.size() == 2) {
    pair(0, 0, 1, 1);
    if (ir::info(apply.op).commutative) pair(0, 1, 1, 0);
    return;
  }
  exact(pattern.children[0], arg(0), *bound, then);
  // abs is even; and where exp(x) occurs, exp(-x) may be meant: 1 + exp(-x) is
  // exp(-x) * (exp(x) + 1).
  if (apply.op == Op::Abs || apply.op == Op::Exp)
    exact(pattern.children[0], {-arg(0).scale, arg(0).cls}, *bound, then);
}

void Matcher::exact_sum(const Pattern& pattern, Ref ref, const Bindings& bindings,
                        const Then& then) {
  double known = 0;
  const Number* free = nullptr;
  const Pattern* only = nullptr;
  size_t others = 0;
  for (const Pattern& child : pattern.children) {
    if (child.kind != Kind::Number) {
      only = &child;
      ++others;
    } else if (const auto value = child.number.value(bindings.captures)) {
      known += *value;
    } else {
      free = &child.number;
    }
  }
  if (others != 1) return addends(pattern, 0, ref, bindings, then);
  std::optional<Bindings> bound = bindings;
  if (free) {
    const Sum* sum = graph_.as_sum(ref.cls);
    if (!sum || sum->terms[0].cls != kOne) return;
    const double total = sum->terms[0].coefficient * ref.scale;
    bound = bind(*free, total - known, bindings);
    if (!bound) return;
    known = total;
  }
  const auto rest = known == 0 ? std::optional(ref)
                               : graph_.sum(std::array{ref, constant(-known)}, Cancel::Allow);
  if (rest && !is_constant(*rest)) exact(*only, *rest, *bound, then);
}

void Matcher::addends(const Pattern& pattern, size_t child, Ref ref, const Bindings& bindings,
                      const Then& then) {
  while (child < pattern.children.size() && (pattern.children[child].kind == Kind::Number ||
                                             is_bound(pattern.children[child], bindings)))
    ++child;
  if (child == pattern.children.size()) return then(bindings);
  const Sum* sum = graph_.as_sum(ref.cls);
  if (!sum) return;
  for (const auto& term : std::vector(sum->terms))
    if (term.cls != kOne)
      exact(pattern.children[child], {term.coefficient * ref.scale, term.cls}, bindings,
            [&](const Bindings& bound) { addends(pattern, child + 1, ref, bound, then); });
}

void Matcher::sum_up_to_scale(const Pattern& pattern, ClassId cls, const Bindings& bindings,
                              const Then& then) {
  const Sum* sum = graph_.as_sum(cls);
  if (!sum) return;
  const auto terms = sum->terms;
  // A known number fixes the scale.
  for (const Pattern& child : pattern.children) {
    if (child.kind != Kind::Number) continue;
    const auto wanted = child.number.value(bindings.captures);
    if (!wanted || *wanted == 0) continue;
    if (terms[0].cls == kOne)
      exact_sum(pattern, {*wanted / terms[0].coefficient, cls}, bindings, then);
    return;
  }
  // Else a term found up to scale does.
  for (const Pattern& child : pattern.children) {
    if (child.kind != Kind::Apply) continue;
    for (const auto& term : terms) {
      if (term.cls == kOne) continue;
      up_to_scale(child, term.cls, bindings, [&](const Bindings& bound) {
        const auto value = graph_.instantiate(child, bound);
        if (value && value->cls == graph_.find({1, term.cls}).cls)
          exact_sum(pattern, {value->scale / term.coefficient, cls}, bound, then);
      });
    }
  }
}

void Matcher::exact_product(const Pattern& pattern, Ref ref, const Bindings& bindings,
                            const Then& then) {
  if (pattern.children.size() == 1) {
    if (pattern.exponents[0] == 1)
      return multiple(pattern.number, pattern.children[0], ref, bindings, then);
    const auto number = pattern.number.value(bindings.captures);
    if (number && *number != 0)
      power(pattern.children[0], pattern.exponents[0], {ref.scale / *number, ref.cls}, bindings,
            then);
    return;
  }
  for (const auto& factors : products(ref.cls)) this->factors(pattern, 0, factors, bindings, then);
}

// child^exponent == ref.
void Matcher::power(const Pattern& pattern, int exponent, Ref ref, const Bindings& bindings,
                    const Then& then) {
  std::vector<EGraph::Power> roots;
  for (const auto& factor : graph_.factors(ref.cls)) {
    if (factor.exponent % exponent != 0) return;
    roots.push_back({{1, factor.cls}, factor.exponent / exponent});
  }
  const auto root = graph_.product(roots, Cancel::Allow);
  if (!root || (exponent % 2 == 0 && ref.scale < 0)) return;
  const double magnitude = std::pow(std::fabs(ref.scale), 1.0 / exponent);
  for (const double sign : {1.0, -1.0}) {
    if (exponent % 2 != 0 && (sign < 0) != (ref.scale < 0)) continue;
    exact(pattern, {sign * magnitude * root->scale, root->cls}, bindings, then);
  }
}

void Matcher::factors(const Pattern& pattern, size_t child,
                      std::span<const Product::Factor> factors, const Bindings& bindings,
                      const Then& then) {
  while (child < pattern.children.size() && (pattern.children[child].kind == Kind::Variable ||
                                             is_bound(pattern.children[child], bindings)))
    ++child;
  if (child < pattern.children.size()) {
    for (const auto& factor : factors)
      if ((factor.exponent > 0) == (pattern.exponents[child] > 0))
        up_to_scale(pattern.children[child], factor.cls, bindings, [&](const Bindings& bound) {
          this->factors(pattern, child + 1, factors, bound, then);
        });
    return;
  }
  // A power of one variable is the whole product; a variable among others may be the remaining
  // factors.
  if (pattern.children.size() == 1 && !is_bound(pattern.children[0], bindings)) {
    const auto exponent = pattern.exponents[0];
    if (factors.size() == 1 && factors[0].exponent == exponent)
      up_to_scale(pattern.children[0], factors[0].cls, bindings, then);
    return;
  }
  then(bindings);
}

void Matcher::multiple(const Number& number, const Pattern& pattern, Ref ref,
                       const Bindings& bindings, const Then& then) {
  if (const auto value = number.value(bindings.captures)) {
    if (*value != 0) exact(pattern, {ref.scale / *value, ref.cls}, bindings, then);
    return;
  }
  const auto with_number = [&](const Bindings& bound) {
    const auto value = graph_.instantiate(pattern, bound);
    if (!value || value->cls != ref.cls || value->scale == 0) return;
    if (const auto all = bind(number, ref.scale / value->scale, bound)) then(*all);
  };
  if (is_bound(pattern, bindings)) return with_number(bindings);
  up_to_scale(pattern, ref.cls, bindings, with_number);
}

}  // namespace attacca::fold
