#include "ir/graph/dim.hpp"

#include <algorithm>
#include <limits>

#include "fmt/format.h"

#include "ir/sizes/formula.hpp"
#include "support/check.hpp"

namespace attacca::ir {
namespace {

// Real shapes stay far below this; products of sums could grow without bound.
constexpr size_t kMostTerms = 1024, kHighestDegree = 64;

}  // namespace

Dim::Dim(int64_t value) {
  if (value != 0) terms_[{}] = value;
}

Dim Dim::symbol(std::string name) {
  Dim dim;
  dim.terms_[{std::move(name)}] = 1;
  return dim;
}

bool Dim::is_static() const {
  return !overflowed_ && (terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty()));
}

int64_t Dim::value() const {
  ATTACCA_CHECK(is_static(), "value() of a symbolic Dim");
  return terms_.empty() ? 0 : terms_.begin()->second;
}

std::optional<int64_t> Dim::maybe_value() const {
  if (!is_static()) return std::nullopt;
  return value();
}

Dim Dim::overflow() {
  Dim dim;
  dim.overflowed_ = true;
  return dim;
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.overflowed_ || b.overflowed_) return Dim::overflow();
  Dim sum = a;
  for (const auto& [monomial, coefficient] : b.terms_) {
    int64_t& slot = sum.terms_[monomial];
    if (__builtin_add_overflow(slot, coefficient, &slot)) return Dim::overflow();
    if (slot == 0) sum.terms_.erase(monomial);
  }
  return sum.terms_.size() <= kMostTerms ? sum : Dim::overflow();
}

Dim operator-(const Dim& a, const Dim& b) {
  return a + b * Dim(-1);
}

Dim operator*(const Dim& a, const Dim& b) {
  if (a.overflowed_ || b.overflowed_ || a.terms_.size() * b.terms_.size() > kMostTerms)
    return Dim::overflow();
  Dim product;
  for (const auto& [ma, ca] : a.terms_) {
    for (const auto& [mb, cb] : b.terms_) {
      if (ma.size() + mb.size() > kHighestDegree) return Dim::overflow();
      Dim::Monomial monomial = ma;
      monomial.insert(monomial.end(), mb.begin(), mb.end());
      std::sort(monomial.begin(), monomial.end());
      int64_t coefficient;
      if (__builtin_mul_overflow(ca, cb, &coefficient)) return Dim::overflow();
      int64_t& slot = product.terms_[monomial];
      if (__builtin_add_overflow(slot, coefficient, &slot)) return Dim::overflow();
      if (slot == 0) product.terms_.erase(monomial);
    }
  }
  return product;
}

std::optional<Dim> Dim::over_term(const Term& by) const {
  Dim quotient;
  for (const auto& [monomial, coefficient] : terms_) {
    if (by.second == -1 && coefficient == std::numeric_limits<int64_t>::min()) return std::nullopt;
    if (coefficient % by.second != 0) return std::nullopt;
    if (!std::includes(monomial.begin(), monomial.end(), by.first.begin(), by.first.end()))
      return std::nullopt;
    Monomial rest;
    std::set_difference(monomial.begin(), monomial.end(), by.first.begin(), by.first.end(),
                        std::back_inserter(rest));
    quotient.terms_[rest] = coefficient / by.second;
  }
  return quotient;
}

// The largest by degree, then by the powers of the first symbols: the order of products' largest
// terms, too.
const Dim::Term& Dim::leading() const {
  return *std::max_element(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) {
    if (a.first.size() != b.first.size()) return a.first.size() < b.first.size();
    return a.first > b.first;
  });
}

std::optional<Dim> divide(const Dim& a, const Dim& b) {
  if (a.overflowed_ || b.overflowed_ || b.terms_.empty()) return std::nullopt;
  if (b.terms_.size() == 1) return a.over_term(*b.terms_.begin());
  const Dim::Term by = b.leading();
  Dim quotient, rest = a;  // long division
  for (size_t step = 0; !rest.terms_.empty(); ++step) {
    Dim largest;
    largest.terms_.insert(rest.leading());
    const auto term = largest.over_term(by);
    if (!term || step == kMostTerms) return std::nullopt;
    quotient = quotient + *term;
    rest = rest - *term * b;
    if (quotient.overflowed_ || rest.overflowed_) return std::nullopt;
  }
  return quotient;
}

Result<int64_t> Dim::evaluate(const SymbolValues& symbols) const {
  int64_t total = 0;
  bool overflow = overflowed_;
  for (const auto& [monomial, coefficient] : terms_) {
    int64_t term = coefficient;
    for (const std::string& name : monomial) {
      const auto known = symbols.find(name);
      ATTACCA_TRY(const int64_t size, known != symbols.end() ? Result<int64_t>(known->second)
                                                             : evaluate_formula(name, symbols));
      overflow |= __builtin_mul_overflow(term, size, &term);
    }
    overflow |= __builtin_add_overflow(total, term, &total);
  }
  if (overflow)
    return fail(fmt::format("dimension {} overflows 64 bits", to_string(*this)), {},
                "use smaller dimensions");
  if (total < 0)
    return fail(fmt::format("dimension {} is negative: {}", to_string(*this), total),
                to_string(*this), "give its symbols other sizes");
  return total;
}

void Dim::collect_symbols(std::vector<std::string>& into) const {
  for (const auto& [monomial, coefficient] : terms_)
    for (const std::string& name : monomial) collect_formula_symbols(name, into);
}

std::string to_string(const Dim& dim) {
  if (dim.overflowed_) return "(overflow)";
  if (dim.terms_.empty()) return "0";
  std::vector<std::string> parts;
  const auto write = [&](const Dim::Monomial& monomial, int64_t coefficient) {
    std::string text = fmt::format("{}", fmt::join(monomial, "*"));
    if (monomial.empty())
      text = fmt::format("{}", coefficient);
    else if (coefficient != 1)
      text = fmt::format("{}*{}", coefficient, text);
    parts.push_back(std::move(text));
  };
  for (const auto& [monomial, coefficient] : dim.terms_)
    if (!monomial.empty()) write(monomial, coefficient);
  if (const auto constant = dim.terms_.find({}); constant != dim.terms_.end())
    write({}, constant->second);
  return fmt::format("{}", fmt::join(parts, " + "));
}

std::string to_string(const Shape& shape) {
  std::vector<std::string> parts;
  for (const Dim& dim : shape) parts.push_back(to_string(dim));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

bool is_static(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.is_static(); });
}

Dim element_count(const Shape& shape) {
  Dim count = 1;
  for (const Dim& dim : shape) count = count * dim;
  return count;
}

Result<std::vector<int64_t>> evaluate(const Shape& shape, const SymbolValues& symbols) {
  std::vector<int64_t> extents;
  for (const Dim& dim : shape) {
    ATTACCA_TRY(const int64_t extent, dim.evaluate(symbols));
    extents.push_back(extent);
  }
  return extents;
}

std::optional<Dim> broadcast(const Dim& a, const Dim& b) {
  if (a == b || b.is(1)) return a;
  if (a.is(1)) return b;
  return std::nullopt;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    const auto dim = broadcast(longer[offset + i], shorter[i]);
    if (!dim) return std::nullopt;
    result[offset + i] = *dim;
  }
  return result;
}

std::vector<Dim> contiguous_strides(const Shape& shape) {
  std::vector<Dim> strides(shape.size());
  Dim stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride = stride * shape[i];
  }
  return strides;
}

}  // namespace attacca::ir
