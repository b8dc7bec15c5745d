#include "ir/graph/size_functions.hpp"

#include <algorithm>

#include "ir/sizes/formula.hpp"

namespace attacca::ir {
namespace {

constexpr size_t kLongestFormula = 1024;  // longer ones count as overflow, as too many terms do

using Bound = std::optional<int64_t>;
struct Bounds {
  Bound low, high;
};

Dim overflow() {
  return Dim(INT64_MAX) * 2;
}

Dim formula(SizeFunction function, const Dim& a, const Dim& b) {
  if (a.overflowed() || b.overflowed()) return overflow();
  const std::string left = to_string(a), right = to_string(b);
  std::string text = to_string(Formula{function, left, right});
  return text.size() > kLongestFormula ? overflow() : Dim::symbol(std::move(text));
}

Dim dim_of(const SizeTerm& term) {
  Dim product = term.coefficient;
  for (const std::string_view factor : term.factors)
    product = product * Dim::symbol(std::string(factor));
  return product;
}

std::optional<Dim> of_numbers(SizeFunction function, const Dim& a, const Dim& b) {
  if (!a.is_static() || !b.is_static()) return std::nullopt;
  const auto value = apply(function, a.value(), b.value());
  return value ? std::optional(Dim(*value)) : std::nullopt;
}

Bound floor_by(const Bound& bound, int64_t by) {
  return bound ? apply(SizeFunction::FloorDiv, *bound, by) : std::nullopt;
}

// A bound of min (and, with `higher`, of max) where either operand's is enough.
Bound either(const Bound& a, const Bound& b, bool higher) {
  if (!a || !b) return a ? a : b;
  return higher ? std::max(*a, *b) : std::min(*a, *b);
}
Bound both(const Bound& a, const Bound& b, bool higher) {
  return a && b ? either(a, b, higher) : std::nullopt;
}

Bounds bounds_of(std::string_view sum);

Bounds bounds_of_factor(std::string_view factor) {
  const auto made = parse_formula(factor);
  if (!made) return {0, std::nullopt};
  const Bounds a = bounds_of(made->a), b = bounds_of(made->b);
  switch (made->function) {
    case SizeFunction::Min:
      return {both(a.low, b.low, false), either(a.high, b.high, false)};
    case SizeFunction::Max:
      return {either(a.low, b.low, true), both(a.high, b.high, true)};
    case SizeFunction::FloorDiv:
      if (b.low && b.low == b.high && *b.low > 0)
        return {floor_by(a.low, *b.low), floor_by(a.high, *b.low)};
      if (a.low && *a.low >= 0 && b.low && *b.low >= 0) return {0, a.high};
      return {};
  }
  return {};
}

Bound times(const Bound& a, const Bound& b) {
  int64_t product;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

Bound plus(const Bound& a, const Bound& b) {
  int64_t sum;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

// Products of several factors are bounded where none is negative.
Bounds bounds_of_term(const SizeTerm& term) {
  Bounds all{1, 1};
  for (const std::string_view factor : term.factors) {
    const Bounds one = bounds_of_factor(factor);
    if (term.factors.size() > 1 && one.low.value_or(-1) < 0) return {};
    all = {times(all.low, one.low), times(all.high, one.high)};
  }
  const Bound low = times(all.low, term.coefficient), high = times(all.high, term.coefficient);
  return term.coefficient < 0 ? Bounds{high, low} : Bounds{low, high};
}

Bounds bounds_of(std::string_view sum) {
  Bounds total{0, 0};
  for (const SizeTerm& term : terms_of(sum)) {
    const Bounds one = bounds_of_term(term);
    total = {plus(total.low, one.low), plus(total.high, one.high)};
  }
  return total;
}

Dim dim_of(std::string_view sum) {
  Dim total = 0;
  for (const SizeTerm& term : terms_of(sum)) total = total + dim_of(term);
  return total;
}

// Sums that are at most the term: max(a, b) is at least a and b, -min(a, b) at least -a and -b, and
// -floordiv(a, 3) at least -a.
std::vector<Dim> below(const SizeTerm& term) {
  const auto made = term.factors.size() == 1 ? parse_formula(term.factors[0]) : std::nullopt;
  if (!made || (term.coefficient > 0) != (made->function == SizeFunction::Max)) return {};
  const Dim a = dim_of(made->a), b = dim_of(made->b), times = term.coefficient;
  if (made->function != SizeFunction::FloorDiv) return {a * times, b * times};
  const bool shrinks = bounds_of(made->a).low.value_or(-1) >= 0 && b.maybe_value().value_or(0) > 0;
  return shrinks ? std::vector<Dim>{a * times} : std::vector<Dim>{};
}

// The operands of a term of which one or the other is the term: min(a, b), -max(a, b).
std::vector<Dim> one_of(const SizeTerm& term) {
  const auto made = term.factors.size() == 1 ? parse_formula(term.factors[0]) : std::nullopt;
  if (!made || made->function != (term.coefficient > 0 ? SizeFunction::Min : SizeFunction::Max))
    return {};
  return {dim_of(made->a) * term.coefficient, dim_of(made->b) * term.coefficient};
}

// The largest that is found; the bounds of the terms do not tell that M - floordiv(M, 2) is not
// negative.
Bound lower_bound(const Dim& dim, int replaced) {
  if (dim.overflowed()) return std::nullopt;
  const std::string text = to_string(dim);
  Bound low = bounds_of(text).low;
  if (replaced == 0 || text.size() > kLongestFormula) return low;
  for (const SizeTerm& term : terms_of(text)) {
    const auto with = [&](const Dim& each) {
      return lower_bound(dim - dim_of(term) + each, replaced - 1);
    };
    for (const Dim& each : below(term)) low = either(low, with(each), true);
    if (const auto operands = one_of(term); !operands.empty())
      low = either(low, both(with(operands[0]), with(operands[1]), false), true);
  }
  return low;
}

bool at_most(const Dim& a, const Dim& b) {
  return lower_bound(b - a).value_or(-1) >= 0;
}

// One text for both orders.
Dim symmetric(SizeFunction function, const Dim& a, const Dim& b) {
  const bool ordered =
      a.is_static() == b.is_static() ? to_string(a) <= to_string(b) : b.is_static();
  return ordered ? formula(function, a, b) : formula(function, b, a);
}

// floordiv(floordiv(a, 5) + c, 2) is floordiv(a + 5*c, 10).
std::optional<Dim> nested(const Dim& sum, int64_t by) {
  const std::string text = to_string(sum);
  const std::vector<SizeTerm> terms = terms_of(text);
  const SizeTerm* quotient = nullptr;
  for (const SizeTerm& term : terms) {
    if (term.factors.empty()) continue;
    if (quotient || term.coefficient != 1 || term.factors.size() != 1) return std::nullopt;
    quotient = &term;
  }
  const auto inner = quotient ? parse_formula(quotient->factors[0]) : std::nullopt;
  if (!inner || inner->function != SizeFunction::FloorDiv) return std::nullopt;
  const Dim divisor = dim_of(inner->b);
  if (divisor.maybe_value().value_or(0) < 1) return std::nullopt;
  const Dim more = sum - dim_of(*quotient);
  return floor_div(dim_of(inner->a) + divisor * more, divisor * by);
}

}  // namespace

// What divides leaves the formula, and the other coefficients become less than b.
Dim floor_div(const Dim& a, const Dim& b) {
  if (const auto exact = divide(a, b)) return *exact;
  if (const auto value = of_numbers(SizeFunction::FloorDiv, a, b)) return *value;
  const auto by = b.maybe_value();
  if (!by || *by < 1 || a.overflowed()) return formula(SizeFunction::FloorDiv, a, b);
  Dim whole = 0, rest = 0;
  const std::string text = to_string(a);
  for (const SizeTerm& term : terms_of(text)) {
    const int64_t quotient = *apply(SizeFunction::FloorDiv, term.coefficient, *by);
    const Dim unit = dim_of({1, term.factors});
    whole = whole + unit * quotient;
    rest = rest + unit * (term.coefficient - quotient * *by);
  }
  if (rest.is_static()) return whole + floor_div(rest, b);
  if (const auto one = nested(rest, *by)) return whole + *one;
  const Dim even = rest - 1;
  if (b.is(2) && to_string(rest).ends_with(" + 1"))  // one text for M/2 rounded up
    return whole + even - formula(SizeFunction::FloorDiv, even, b);
  return whole + formula(SizeFunction::FloorDiv, rest, b);
}

Dim ceil_div(const Dim& a, const Dim& b) {
  if (const auto exact = divide(a, b)) return *exact;
  return floor_div(a + b - 1, b);
}

Dim minimum(const Dim& a, const Dim& b) {
  if (at_most(a, b)) return a;
  if (at_most(b, a)) return b;
  return symmetric(SizeFunction::Min, a, b);
}

Dim maximum(const Dim& a, const Dim& b) {
  if (at_most(a, b)) return b;
  if (at_most(b, a)) return a;
  return symmetric(SizeFunction::Max, a, b);
}

std::optional<int64_t> lower_bound(const Dim& dim) {
  constexpr int kMostReplaced = 2;
  return lower_bound(dim, kMostReplaced);
}

std::optional<int64_t> upper_bound(const Dim& dim) {
  const auto low = lower_bound(dim * -1);
  return low && *low != INT64_MIN ? std::optional(-*low) : std::nullopt;
}

}  // namespace attacca::ir
