#include "fold/exponentials.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace attacca::fold {
namespace {

constexpr size_t kMaxMonomials = 12;
constexpr int kMaxPower = 4;
constexpr double kLost = 1e-9;  // a term relative to another

bool smaller(const Sum::Term& a, const Sum::Term& b) {
  return std::fabs(a.coefficient) < std::fabs(b.coefficient);
}

// Adds monomials of one exponent. Exponents may be tiny, so they are compared with the largest.
template <class Polynomial>
Polynomial collect(Polynomial monomials) {
  std::sort(monomials.begin(), monomials.end(),
            [](const auto& a, const auto& b) { return a.exponent < b.exponent; });
  double reach = 0;
  for (const auto& monomial : monomials) reach = std::max(reach, std::fabs(monomial.exponent));
  Polynomial collected;
  for (size_t i = 0; i < monomials.size();) {
    auto total = monomials[i];
    if (std::fabs(total.exponent) <= kNoise * reach) total.exponent = 0;
    double largest = std::fabs(total.coefficient);
    size_t next = i + 1;
    for (; next < monomials.size() &&
           monomials[next].exponent - monomials[i].exponent <= kNoise * reach;
         ++next) {
      total.coefficient += monomials[next].coefficient;
      largest = std::max(largest, std::fabs(monomials[next].coefficient));
    }
    if (std::fabs(total.coefficient) > kNoise * largest) collected.push_back(total);
    i = next;
  }
  return collected;
}

template <class Polynomial>
Polynomial multiply(const Polynomial& a, const Polynomial& b) {
  Polynomial product;
  for (const auto& x : a)
    for (const auto& y : b)
      product.push_back({x.exponent + y.exponent, x.coefficient * y.coefficient});
  return collect(std::move(product));
}

}  // namespace

bool Exponentials::apply_to(const EGraph& graph, std::span<const Sum::Term> terms) {
  ClassId base = kNone;
  for (const auto& term : terms) {
    if (term.cls == kOne) continue;
    const ClassId of = graph[term.cls].exponential_of;
    if (of == kNone || (base != kNone && base != of)) return false;
    base = of;
  }
  return base != kNone;
}

Exponentials::Polynomial Exponentials::polynomial(ClassId cls) const {
  if (cls == kOne) return {{0, 1}};
  if (const Apply* exp = graph_.as_apply(cls, ir::Op::Exp)) return {{exp->args[0].scale, 1}};
  Polynomial result;
  if (const Sum* sum = graph_.as_sum(cls))
    for (const auto& term : sum->terms)
      for (const Monomial& inner : polynomial(term.cls))
        result.push_back({inner.exponent, inner.coefficient * term.coefficient});
  return collect(std::move(result));
}

std::optional<Exponentials::Fraction> Exponentials::fraction(ClassId cls) const {
  Fraction result{{{0, 1}}, {}};
  for (const auto& factor : graph_.factors(cls)) {
    if (factor.exponent < 0) {
      result.denominator.push_back({factor.cls, -factor.exponent});
      continue;
    }
    if (factor.exponent > kMaxPower) return std::nullopt;
    const Polynomial base = polynomial(factor.cls);
    if (base.empty()) return std::nullopt;
    for (int i = 0; i < factor.exponent; ++i) {
      result.numerator = multiply(result.numerator, base);
      if (result.numerator.size() > kMaxMonomials) return std::nullopt;
    }
  }
  return result;
}

std::optional<Ref> Exponentials::sum(std::span<const Sum::Term> terms) {
  std::vector<Fraction> fractions;
  std::map<ClassId, int> denominator;
  for (const auto& term : terms) {
    auto part = fraction(term.cls);
    if (!part) return std::nullopt;
    if (term.cls != kOne) base_ = graph_[term.cls].exponential_of;
    for (Monomial& monomial : part->numerator) monomial.coefficient *= term.coefficient;
    for (const auto& factor : part->denominator)
      denominator[factor.cls] = std::max(denominator[factor.cls], factor.exponent);
    fractions.push_back(std::move(*part));
  }
  // Over a common denominator, small terms are added to large ones: 3 would be lost in
  // 1e20 * tanh(x) + 3.
  const auto [least, most] = std::minmax_element(terms.begin(), terms.end(), smaller);
  if (!denominator.empty() && std::fabs(least->coefficient) < kLost * std::fabs(most->coefficient))
    return std::nullopt;
  Polynomial numerator;
  for (Fraction& part : fractions) {
    auto missing = denominator;
    for (const auto& factor : part.denominator) missing[factor.cls] -= factor.exponent;
    for (const auto& [cls, exponent] : missing) {
      if (exponent > kMaxPower) return std::nullopt;
      for (int i = 0; i < exponent; ++i) part.numerator = multiply(part.numerator, polynomial(cls));
      if (part.numerator.size() > kMaxMonomials) return std::nullopt;
    }
    numerator.insert(numerator.end(), part.numerator.begin(), part.numerator.end());
  }
  std::vector<Product::Factor> factors;
  for (const auto& [cls, exponent] : denominator) factors.push_back({cls, exponent});
  return build(collect(std::move(numerator)), std::move(factors));
}

Ref Exponentials::monomial(Monomial monomial) {
  if (monomial.exponent == 0) return constant(monomial.coefficient);
  const Ref exp = graph_.opaque(ir::Op::Exp, {}, {{monomial.exponent, base_}});
  return {monomial.coefficient * exp.scale, exp.cls};
}

std::optional<Ref> Exponentials::build(Polynomial numerator,
                                       std::vector<Product::Factor> denominator) {
  if (numerator.empty()) return constant(0);
  if (numerator.size() > kMaxMonomials) return std::nullopt;
  const double lowest = numerator.front().exponent;
  std::vector<Sum::Term> terms;
  for (Monomial part : numerator) {
    part.exponent -= lowest;
    const Ref ref = monomial(part);
    terms.push_back({ref.cls, ref.scale});
  }
  std::sort(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.cls < b.cls; });
  const auto sum = terms.size() == 1 ? std::optional(Ref{terms[0].coefficient, terms[0].cls})
                                     : graph_.intern_scaled_sum(std::move(terms));
  if (!sum) return std::nullopt;
  std::vector<EGraph::Power> powers = {{*sum, 1}, {monomial({lowest, 1}), 1}};
  for (const auto& factor : denominator) powers.push_back({{1, factor.cls}, -factor.exponent});
  return graph_.product(powers, Cancel::Allow);
}

}  // namespace attacca::fold
