// The e-graph: classes of equal expressions over graph values, modulo arithmetic.
//
// Sums and products are n-ary normal forms, so order, association, commutation, subtraction,
// division, constant folding and the distribution of constants need no rules. A reference is a
// number times a class (a union-find labelled with factors): x, -x and 2*x are one class.
// Sums of exponentials of one class are kept as a polynomial over a common denominator, which makes
// 1 / (1 + exp(-x)), exp(x) / (1 + exp(x)) and 0.5 * (1 + tanh(x / 2)) one class.
//
// Nothing here rounds or reassociates the graph: normal forms only decide what is equal.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <variant>
#include <vector>

#include "fold/rule.hpp"
#include "ir/graph/graph.hpp"

namespace attacca::fold {

using ClassId = uint32_t;
inline constexpr ClassId kOne = 0;  // the class of the number 1; a constant c is c * kOne

struct Ref {
  double scale = 0;
  ClassId cls = kOne;
  bool operator==(const Ref&) const = default;
};
inline Ref constant(double value) {
  return {value + 0.0, kOne};  // without -0
}
inline bool is_constant(Ref ref) {
  return ref.cls == kOne;
}
// The relative rounding error of the e-graph's own arithmetic.
inline constexpr double kNoise = 1e-13;
// Equal up to that error.
bool same(double a, double b);
inline bool same(Ref a, Ref b) {
  return a.cls == b.cls && same(a.scale, b.scale);
}

struct Leaf {
  ir::Value value;
};
// The sum of coefficient * class, at least two, sorted by class, the first non-constant one 1.
struct Sum {
  struct Term {
    ClassId cls;
    double coefficient;
  };
  std::vector<Term> terms;
};
// The product of class ^ exponent, sorted by class; not a single class.
struct Product {
  struct Factor {
    ClassId cls;
    int exponent;
  };
  std::vector<Factor> factors;
};
struct Apply {
  ir::Op op;
  std::vector<double> params;
  std::vector<Ref> args;
};

inline constexpr ClassId kNone = UINT32_MAX;

struct Form {
  std::variant<Leaf, Sum, Product, Apply> node;
  double scale = 1;            // the form's value is scale * the class
  const Rule* rule = nullptr;  // that found it; none: it comes from the graph
  ClassId recovered = kNone;   // Product with a rule: the factor that the rule found
  bool whole = false;          // holds for the bare class only, not inside scale * class
};

// A graph value that equals scale * class.
struct Anchor {
  ir::Value value;
  double scale;
};

struct Class {
  Ref parent;               // of an absorbed class: what it equals; else itself
  std::vector<Form> forms;  // the first is the normal form
  std::vector<Anchor> anchors;
  std::vector<ClassId> users;  // whose normal form refers to this class
  // Of a polynomial in exp(class): that class. kNone: it is something else.
  ClassId exponential_of;
  Product::Factor itself;  // what factors() points to for a class that is no product
  // A filter of the ops that occur in it, down to but not inside their arguments: an op whose bit
  // is clear does not occur. Several ops share a bit.
  uint64_t ops = 0;
  bool saturated = false;
};
inline uint64_t op_bit(ir::Op op) {
  return uint64_t{1} << (static_cast<unsigned>(op) % 64);
}

// A longer sum or product is one term or factor in others, so that expressions over it stay within
// the limits. A result of twice this length gets no normal form.
inline constexpr size_t kMaxFlattenedTerms = 8;
inline constexpr size_t kMaxFlattenedFactors = 6;

// Whether equal terms of opposite sign may cancel. In the graph's own sums they may not: (x + y) -
// y is x for real numbers only.
enum class Cancel : uint8_t { Forbid, Allow };

// Values of a rule's variables and captured constants.
struct Bindings {
  std::array<std::optional<Ref>, kVariables.size()> variables = {};
  std::array<std::optional<double>, kCaptures.size()> captures = {};
  bool operator==(const Bindings&) const = default;
};

class EGraph {
 public:
  // `computed`: the dtype that its expressions compute in.
  explicit EGraph(ir::DType computed = ir::DType::F32);
  ir::DType computed() const { return computed_; }

  Ref leaf(ir::Value value);
  // The class of op(args); nullopt if there is no normal form (division by zero, cancellation, too
  // many terms): then use opaque().
  std::optional<Ref> apply(ir::Op op, std::span<const double> params, std::span<const Ref> args,
                           Cancel cancel);
  Ref opaque(ir::Op op, std::vector<double> params, std::vector<Ref> args);
  std::optional<Ref> sum(std::span<const Ref> addends, Cancel cancel);
  struct Power {
    Ref base;
    int exponent;
  };
  std::optional<Ref> product(std::span<const Power> powers, Cancel cancel);
  // A pattern under bindings. nullopt: a variable is unbound, or there is no normal form.
  std::optional<Ref> instantiate(const Pattern& pattern, const Bindings& bindings);

  Ref find(Ref ref) const;
  const Class& operator[](ClassId cls) const { return classes_[cls]; }
  size_t size() const { return classes_.size(); }

  // Records that a value of the graph equals ref.
  void anchor(Ref ref, ir::Value value);
  // Records one more form of ref's class, whose value is ref.
  void add_form(Ref ref, Form form);
  // a == b from now on; b's class lives on. Normal forms that refer to a's class are renewed.
  void merge(Ref a, Ref b);
  bool mark_saturated(ClassId cls);  // false if it was

  // Parts of a normal form.
  const Sum* as_sum(ClassId cls) const;
  const Product* as_product(ClassId cls) const;
  // Normal form op(args) of that op.
  const Apply* as_apply(ClassId cls, ir::Op op) const;
  // The factors of a class within a product; only the class itself if it is not a product or a long
  // one. They hold until a class is added.
  std::span<const Product::Factor> factors(ClassId cls) const;

 private:
  friend class Exponentials;
  using Key = std::vector<uint64_t>;
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };

  uint64_t bits(double number);
  // They return key_, which the next call overwrites.
  const Key& key_of(const Leaf& leaf);
  const Key& key_of(const Sum& sum);
  const Key& key_of(const Product& product);
  const Key& key_of(const Apply& apply);
  const Key& key_of(const Form& form);
  void add_anchor(ClassId cls, Anchor anchor);
  ClassId make(Form form, const Key& key, ClassId exponential_of, uint64_t ops);
  ClassId intern_sum(std::vector<Sum::Term> terms);
  std::optional<Ref> intern_scaled_sum(std::vector<Sum::Term> terms);
  ClassId intern_product(std::vector<Product::Factor> factors);
  ClassId intern_apply(ir::Op op, std::vector<double> params, std::vector<Ref> args);
  std::optional<Ref> common_factor(std::span<const Sum::Term> terms);
  std::optional<Ref> exp(Ref x);
  std::optional<Ref> log(Ref x);
  std::optional<Ref> power(Ref x, Ref exponent);
  std::optional<Ref> clamp(Ref x, double low, double high);
  std::optional<Ref> extremum(ir::Op op, Ref x, Ref y);
  std::optional<Ref> compare(ir::Op op, Ref x, Ref y);
  std::optional<Ref> where(Ref condition, Ref x, Ref y);
  std::optional<Ref> defined(ir::Op op, std::span<const double> params, std::span<const Ref> args);
  void renew(ClassId cls);

  std::vector<Class> classes_;
  std::unordered_map<Key, ClassId, KeyHash> interned_;
  Key key_;
  std::set<double> numbers_;  // of keys; none the same as another
  std::vector<ClassId> stale_;
  ir::DType computed_;
};

}  // namespace attacca::fold
