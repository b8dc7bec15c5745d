// Proposes bindings under which a pattern may be found in a class.
//
// A proposal may be wrong: a rule is applied only if the instantiated pattern is that class or a
// factor of it (fold/saturate.cpp), modulo order, association and scale. So each name is bound at
// the first place that determines it, and later places are not compared.
#pragma once

#include <functional>

#include "fold/egraph.hpp"

namespace attacca::fold {

class Matcher {
 public:
  using Then = std::function<void(const Bindings&)>;
  explicit Matcher(EGraph& graph) : graph_(graph) {}

  // Calls then for each proposal. Variables may stay unbound.
  void propose(const Pattern& pattern, ClassId cls, const Then& then);

 private:
  // pattern == ref, or pattern == some number * class.
  void exact(const Pattern& pattern, Ref ref, const Bindings& bindings, const Then& then);
  void up_to_scale(const Pattern& pattern, ClassId cls, const Bindings& bindings, const Then& then);

  void exact_sum(const Pattern& pattern, Ref ref, const Bindings& bindings, const Then& then);
  void sum_up_to_scale(const Pattern& pattern, ClassId cls, const Bindings& bindings,
                       const Then& then);
  void addends(const Pattern& pattern, size_t child, Ref ref, const Bindings& bindings,
               const Then& then);
  void exact_product(const Pattern& pattern, Ref ref, const Bindings& bindings, const Then& then);
  void factors(const Pattern& pattern, size_t child, std::span<const Product::Factor> factors,
               const Bindings& bindings, const Then& then);
  // number * pattern == ref.
  void multiple(const Number& number, const Pattern& pattern, Ref ref, const Bindings& bindings,
                const Then& then);
  // pattern == scale * apply.
  void arguments(const Pattern& pattern, const Apply& apply, double scale, const Bindings& bindings,
                 const Then& then);
  void power(const Pattern& pattern, int exponent, Ref ref, const Bindings& bindings,
             const Then& then);
  std::vector<double> scales(const Pattern& pattern, const Apply& apply,
                             const Bindings& bindings) const;
  std::vector<double> anchored_scales(ClassId cls) const;
  std::vector<std::vector<Product::Factor>> products(ClassId cls) const;

  EGraph& graph_;
  int proposals_ = 0;
};

// Whether every name in the pattern is bound.
bool is_bound(const Pattern& pattern, const Bindings& bindings);

}  // namespace attacca::fold
