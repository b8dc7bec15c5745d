// Sums of exponentials of one class as fractions of polynomials: with E = exp(x),
// 1 + exp(-x) is E^-1 * (E + 1), and 1 - 2 / (E + 1) is (E - 1) * (E + 1)^-1.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "fold/egraph.hpp"

namespace attacca::fold {

class Exponentials {
 public:
  explicit Exponentials(EGraph& graph) : graph_(graph) {}

  // Whether every term is a number or built of exponentials of one class, one at least.
  static bool apply_to(const EGraph& graph, std::span<const Sum::Term> terms);
  // REQUIRES: apply_to(terms), no two terms of one class.
  std::optional<Ref> sum(std::span<const Sum::Term> terms);

 private:
  struct Monomial {
    double exponent;  // of exp(base)
    double coefficient;
  };
  using Polynomial = std::vector<Monomial>;  // ascending exponents
  struct Fraction {
    Polynomial numerator;
    std::vector<Product::Factor> denominator;  // positive exponents
  };

  std::optional<Fraction> fraction(ClassId cls) const;
  Polynomial polynomial(ClassId sum) const;
  Ref monomial(Monomial monomial);
  std::optional<Ref> build(Polynomial numerator, std::vector<Product::Factor> denominator);

  EGraph& graph_;
  ClassId base_ = kNone;
};

}  // namespace attacca::fold
