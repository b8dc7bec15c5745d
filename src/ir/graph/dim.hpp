// An extent, stride or offset: a polynomial with integer coefficients over named symbols, so that
// reshapes and concatenations of symbolic shapes stay exact. `4096`, `M`, `2*M`, `B*S`, `M + 1`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/error.hpp"

namespace attacca::ir {

class Dim;
using SymbolValues = std::map<std::string, int64_t>;

class Dim {
 public:
  Dim() = default;                                      // zero
  Dim(int64_t value);                                   // NOLINT: an integer is a Dim
  Dim(int value) : Dim(static_cast<int64_t>(value)) {}  // NOLINT
  static Dim symbol(std::string name);

  bool is_static() const;
  // REQUIRES: is_static().
  int64_t value() const;
  std::optional<int64_t> maybe_value() const;
  bool is(int64_t value) const { return is_static() && this->value() == value; }

  // `overflowed` if a coefficient leaves int64, or if there are very many terms (hostile input).
  // The result then compares unequal to everything, and shape inference reports it.
  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  // a / b if b divides a exactly as a polynomial, else nullopt.
  friend std::optional<Dim> divide(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b) {
    return !a.overflowed_ && !b.overflowed_ && a.terms_ == b.terms_;
  }
  bool overflowed() const { return overflowed_; }

  // The value for these values of the symbols. Errors: a symbol without a value, a negative result,
  // overflow.
  Result<int64_t> evaluate(const SymbolValues& symbols) const;
  void collect_symbols(std::vector<std::string>& into) const;  // appended in order, no duplicates

 private:
  friend std::string to_string(const Dim& dim);
  static Dim overflow();
  using Monomial = std::vector<std::string>;  // sorted, repeated for powers; empty = constant
  using Terms = std::map<Monomial, int64_t>;
  using Term = Terms::value_type;
  std::optional<Dim> over_term(const Term& by) const;
  const Term& leading() const;  // of a Dim that is not 0

  Terms terms_;  // no zero coefficients
  bool overflowed_ = false;
};

std::string to_string(const Dim& dim);

using Shape = std::vector<Dim>;
std::string to_string(const Shape& shape);  // "[M, 4096]"
bool is_static(const Shape& shape);
Dim element_count(const Shape& shape);
Result<std::vector<int64_t>> evaluate(const Shape& shape, const SymbolValues& symbols);

// NumPy broadcasting of two extents or shapes; nullopt where they do not broadcast. A symbol
// broadcasts with 1 and with itself only.
std::optional<Dim> broadcast(const Dim& a, const Dim& b);
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

// Row-major strides, in elements.
std::vector<Dim> contiguous_strides(const Shape& shape);

}  // namespace attacca::ir
