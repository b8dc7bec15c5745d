// The rules of fold/rules.def, parsed once.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::fold {

// Names in formulas: tensors, and constants captured from the graph.
inline constexpr std::array<std::string_view, 2> kVariables = {"x", "y"};
inline constexpr std::array<std::string_view, 4> kCaptures = {"a", "b", "lo", "hi"};

// A number in a pattern: coefficient * product of captured constants to a power.
struct Number {
  double coefficient = 1;
  std::array<int8_t, kCaptures.size()> exponents = {};

  bool is_plain() const { return exponents == decltype(exponents){}; }
  std::optional<double> value(std::span<const std::optional<double>> captures) const;
};

// A formula with sums and products made n-ary.
struct Pattern {
  enum class Kind : uint8_t { Variable, Number, Sum, Product, Apply };
  Kind kind = Kind::Number;
  size_t variable = 0;            // Variable
  Number number;                  // Number; Product: its coefficient
  ir::Op op = ir::Op::Add;        // Apply
  std::vector<Number> params;     // Apply
  std::vector<Pattern> children;  // Sum, Product, Apply
  std::vector<int> exponents;     // Product: of each child
};

// Inputs at which the two sides of a rule may differ by more than rounding and the sign of a zero.
enum class Differs : uint8_t {
  Nowhere,
  Nan,       // one is NaN where the other is not: not applied, only used by why_not
  Overflow,  // where a subexpression overflows or underflows: the result is the limit
  Single,    // by less than f32's rounding: not applied in f64
};

struct RuleText {
  std::string_view name, pattern, result, condition;
  bool (*holds)(double a, double b, double lo, double hi);
  Differs differs;
  std::string_view why;  // the difference is acceptable
};

struct Rule {
  RuleText text;
  Pattern pattern, result;
  ir::Op op;             // of the result
  ir::Graph formula;     // the pattern as written; captured constants are captured(literal)
  bool defines = false;  // the first rule of its op with distinct variables and captures
  bool gate = false;     // its result has two operands: both must have the result's shape
  // A variable also occurs outside every function, so its value was available to the author.
  bool bare[kVariables.size()] = {};
  bool whole = false;  // recover only the bare expression, not a part or a multiple of it
};

std::span<const RuleText> rule_texts();
// Which captured constant (an index of kCaptures) a literal of Rule::formula stands for, and its
// sign; nullopt: it is a number.
struct Captured {
  size_t index;
  double sign;
};
std::optional<Captured> captured(double literal);
// In table order. A rule whose pattern has the same normal form as an earlier one is for why_not.
std::span<const Rule> rules();
// The rule that defines an op of the table in terms of earlier ones; null for primitives.
const Rule* definition(ir::Op op);
// The numbers that formulas name, and their reciprocals, ascending. A graph must give the exact
// ones exactly, e.g. 0.044715; the irrational ones are those of the table's IRRATIONAL rows.
std::span<const double> exact_constants();
std::span<const double> irrational_constants();
// Products of two exact constants, and of an irrational one and any other; those that are also
// exact constants or exact products are left out of the latter.
std::span<const double> exact_products();
std::span<const double> irrational_products();

}  // namespace attacca::fold
