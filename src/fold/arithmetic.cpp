// Normal forms of sums and products.
#include <algorithm>
#include <cmath>

#include "fold/egraph.hpp"
#include "fold/exponentials.hpp"

namespace attacca::fold {
namespace {

// Larger normal forms are not made. These limits bound the work of every insertion.
constexpr size_t kMaxTerms = 2 * kMaxFlattenedTerms;
constexpr size_t kMaxFactors = 2 * kMaxFlattenedFactors;
constexpr int kMaxExponent = 64;

// Relative to the largest addend; a smaller sum counts as cancelled.
constexpr double kVanished = kNoise;
constexpr double kCancelled = 1e-6;

// std::pow, which takes longer than all else that a product does with its factor.
double raised(double base, int exponent) {
  return base == 1 || exponent == 1 ? base : std::pow(base, exponent);
}

// Whether a coefficient is far enough from overflow and underflow to be multiplied further.
bool in_range(double coefficient) {
  return std::fabs(coefficient) > 1e-100 && std::fabs(coefficient) < 1e100;
}

// Adds the terms of each class; nullopt if one cancels although it must not.
std::optional<std::vector<Sum::Term>> collect(std::vector<Sum::Term> terms, Cancel cancel) {
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto& a, const auto& b) { return a.cls < b.cls; });
  std::vector<Sum::Term> collected;
  for (size_t i = 0; i < terms.size();) {
    double total = 0, largest = 0;
    const ClassId cls = terms[i].cls;
    for (; i < terms.size() && terms[i].cls == cls; ++i) {
      total += terms[i].coefficient;
      largest = std::max(largest, std::fabs(terms[i].coefficient));
    }
    if (std::fabs(total) < kCancelled * largest && cancel == Cancel::Forbid) return std::nullopt;
    if (total != 0 && !in_range(total)) return std::nullopt;
    if (std::fabs(total) > kVanished * largest) collected.push_back({cls, total});
  }
  return collected;
}

}  // namespace

std::optional<Ref> EGraph::sum(std::span<const Ref> addends, Cancel cancel) {
  std::vector<Sum::Term> terms;
  for (const Ref addend : addends) {
    const Ref ref = find(addend);
    if (ref.scale == 0) continue;
    const Sum* inner = as_sum(ref.cls);
    if (inner && inner->terms.size() <= kMaxFlattenedTerms) {
      for (const auto& term : inner->terms) {
        const Ref part = find({ref.scale * term.coefficient, term.cls});
        terms.push_back({part.cls, part.scale});
      }
    } else {
      terms.push_back({ref.cls, ref.scale});
    }
    if (terms.size() > kMaxTerms) return std::nullopt;
  }
  auto collected = collect(std::move(terms), cancel);
  if (!collected) return std::nullopt;
  if (collected->empty()) return constant(0);
  if (collected->size() == 1) return find({(*collected)[0].coefficient, (*collected)[0].cls});
  if (Exponentials::apply_to(*this, *collected)) return Exponentials(*this).sum(*collected);
  if (auto factored = common_factor(*collected)) return factored;
  return intern_scaled_sum(std::move(*collected));
}

std::optional<Ref> EGraph::intern_scaled_sum(std::vector<Sum::Term> terms) {
  const auto lead =
      std::find_if(terms.begin(), terms.end(), [](const auto& term) { return term.cls != kOne; });
  const double scale = lead->coefficient;
  if (!in_range(scale)) return std::nullopt;
  for (auto& term : terms) {
    term.coefficient /= scale;
    if (!in_range(term.coefficient)) return std::nullopt;
  }
  return find({scale, intern_sum(std::move(terms))});
}

// x*y + x*z is x * (y + z).
std::optional<Ref> EGraph::common_factor(std::span<const Sum::Term> terms) {
  const auto first = factors(terms[0].cls);
  std::vector<Product::Factor> common(first.begin(), first.end());
  for (const auto& term : terms.subspan(1)) {
    const auto others = factors(term.cls);
    std::erase_if(common, [&](Product::Factor& factor) {
      for (const auto& other : others) {
        if (other.cls != factor.cls || (other.exponent > 0) != (factor.exponent > 0)) continue;
        if (std::abs(other.exponent) < std::abs(factor.exponent)) factor.exponent = other.exponent;
        return false;
      }
      return true;
    });
    if (common.empty()) return std::nullopt;
  }
  std::vector<Ref> quotients;
  for (const auto& term : terms) {
    std::vector<Power> powers = {{{term.coefficient, term.cls}, 1}};
    for (const auto& factor : common) powers.push_back({{1, factor.cls}, -factor.exponent});
    const auto quotient = product(powers, Cancel::Allow);
    if (!quotient) return std::nullopt;
    quotients.push_back(*quotient);
  }
  const auto inner = sum(quotients, Cancel::Allow);
  if (!inner) return std::nullopt;
  std::vector<Power> powers = {{*inner, 1}};
  for (const auto& factor : common) powers.push_back({{1, factor.cls}, factor.exponent});
  return product(powers, Cancel::Allow);
}

std::optional<Ref> EGraph::product(std::span<const Power> powers, Cancel cancel) {
  double scale = 1;
  std::vector<Product::Factor> flat;
  for (const Power& power : powers) {
    const Ref base = find(power.base);
    if (base.scale == 0 || std::abs(power.exponent) > kMaxExponent) return std::nullopt;
    scale *= raised(base.scale, power.exponent);
    for (const auto& factor : factors(base.cls)) {
      const Ref part = find({1, factor.cls});
      const int exponent = factor.exponent * power.exponent;
      scale *= raised(part.scale, exponent);
      // The class of an absorbed factor may have become a product.
      for (const auto& inner : factors(part.cls))
        flat.push_back({inner.cls, inner.exponent * exponent});
    }
    if (flat.size() > 2 * kMaxFactors) return std::nullopt;
  }
  if (!in_range(scale)) return std::nullopt;
  std::stable_sort(flat.begin(), flat.end(),
                   [](const auto& a, const auto& b) { return a.cls < b.cls; });
  std::vector<Product::Factor> collected;
  std::vector<Ref> exponents;  // of the factors exp(...)
  bool plain_exponential = true;
  for (size_t i = 0; i < flat.size();) {
    const ClassId cls = flat[i].cls;
    int total = 0;
    bool up = false, down = false;
    for (; i < flat.size() && flat[i].cls == cls; ++i) {
      total += flat[i].exponent;
      (flat[i].exponent > 0 ? up : down) = true;
    }
    const bool exponential = classes_[cls].exponential_of != kNone;
    if (up && down && cancel == Cancel::Forbid && !exponential) return std::nullopt;
    if (total == 0) continue;
    collected.push_back({cls, total});
    if (const Apply* exp = as_apply(cls, ir::Op::Exp)) {
      exponents.push_back({exp->args[0].scale * total, exp->args[0].cls});
      plain_exponential &= total == 1;
    }
  }
  if (exponents.size() > 1 || !plain_exponential) {
    std::erase_if(collected, [&](const auto& factor) { return as_apply(factor.cls, ir::Op::Exp); });
    const auto exponent = sum(exponents, Cancel::Allow);
    const auto exponential = exponent ? exp(*exponent) : std::nullopt;
    if (!exponential) return std::nullopt;
    std::vector<Power> rest = {{{scale * exponential->scale, exponential->cls}, 1}};
    for (const auto& factor : collected) rest.push_back({{1, factor.cls}, factor.exponent});
    return product(rest, Cancel::Allow);
  }
  if (collected.empty()) return constant(scale);
  if (collected.size() > kMaxFactors) return std::nullopt;
  if (collected.size() == 1 && collected[0].exponent == 1) return find({scale, collected[0].cls});
  return find({scale, intern_product(std::move(collected))});
}

}  // namespace attacca::fold
