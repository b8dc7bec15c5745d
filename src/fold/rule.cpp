#include "fold/rule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "fmt/format.h"

#include "ir/graph/semantics.hpp"
#include "ir/text/text.hpp"
#include "support/check.hpp"
#include "support/immortal.hpp"

namespace attacca::fold {
namespace {

using ir::Op;

constexpr RuleText kTexts[] = {
#define IRRATIONAL(VALUE, WHAT)
#define RULE(NAME, PATTERN, RESULT, CONDITION, DIFFERS, WHY)                            \
  {NAME,                                                                                \
   PATTERN,                                                                             \
   RESULT,                                                                              \
   #CONDITION,                                                                          \
   []([[maybe_unused]] double a, [[maybe_unused]] double b, [[maybe_unused]] double lo, \
      [[maybe_unused]] double hi) { return bool(CONDITION); },                          \
   Differs::DIFFERS,                                                                    \
   WHY},
#include "fold/rules.def"
};

constexpr double kIrrational[] = {
#define IRRATIONAL(VALUE, WHAT) VALUE,
#define RULE(NAME, PATTERN, RESULT, CONDITION, DIFFERS, WHY)
#include "fold/rules.def"
};

// The text form has numbers but no captured constants, so each is parsed as a number that no
// formula uses.
constexpr double kMarks[] = {3e201, 5e201, 7e201, 9e201};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

std::string mark_captures(std::string_view formula) {
  std::string marked;
  for (size_t i = 0; i < formula.size();) {
    size_t end = i;
    while (end < formula.size() && is_word(formula[end])) ++end;
    const std::string_view word = formula.substr(i, std::max<size_t>(end - i, 1));
    const auto capture = std::find(kCaptures.begin(), kCaptures.end(), word);
    marked += capture == kCaptures.end() ? std::string(word)
                                         : fmt::format("{:g}", kMarks[capture - kCaptures.begin()]);
    i += word.size();
  }
  return marked;
}

Number number_of(double value) {
  const auto capture = captured(value);
  if (!capture) return {value};
  Number number{capture->sign};
  number.exponents[capture->index] = 1;
  return number;
}

Number raised(Number number, int exponent) {
  number.coefficient = std::pow(number.coefficient, exponent);
  for (int8_t& e : number.exponents) e = static_cast<int8_t>(e * exponent);
  return number;
}

Number operator*(Number a, const Number& b) {
  a.coefficient *= b.coefficient;
  for (size_t i = 0; i < a.exponents.size(); ++i)
    a.exponents[i] = static_cast<int8_t>(a.exponents[i] + b.exponents[i]);
  return a;
}

Pattern make_number(Number number) {
  Pattern pattern;
  pattern.number = number;
  return pattern;
}

Pattern make_sum(const Pattern& a, const Pattern& b) {
  Pattern sum;
  sum.kind = Pattern::Kind::Sum;
  for (const Pattern* part : {&a, &b})
    if (part->kind == Pattern::Kind::Sum)
      sum.children.insert(sum.children.end(), part->children.begin(), part->children.end());
    else
      sum.children.push_back(*part);
  return sum;
}

void multiply_into(Pattern& product, const Pattern& part, int exponent) {
  if (part.kind == Pattern::Kind::Number || part.kind == Pattern::Kind::Product)
    product.number = product.number * raised(part.number, exponent);
  if (part.kind == Pattern::Kind::Number) return;
  if (part.kind != Pattern::Kind::Product) {
    for (size_t i = 0; i < product.children.size(); ++i)
      if (part.kind == Pattern::Kind::Variable &&
          product.children[i].kind == Pattern::Kind::Variable &&
          product.children[i].variable == part.variable) {
        product.exponents[i] += exponent;
        return;
      }
    product.children.push_back(part);
    product.exponents.push_back(exponent);
    return;
  }
  for (size_t i = 0; i < part.children.size(); ++i)
    multiply_into(product, part.children[i], part.exponents[i] * exponent);
}

Pattern make_product(const Pattern& a, int exponent, const Pattern& b, int b_exponent) {
  Pattern product;
  product.kind = Pattern::Kind::Product;
  multiply_into(product, a, exponent);
  multiply_into(product, b, b_exponent);
  if (product.children.empty()) return make_number(product.number);
  return product;
}

Pattern negated(const Pattern& pattern) {
  return make_product(make_number({-1}), 1, pattern, 1);
}

Pattern make_apply(Op op, std::vector<Number> params, std::vector<Pattern> children) {
  Pattern pattern;
  pattern.kind = Pattern::Kind::Apply;
  pattern.op = op;
  pattern.params = std::move(params);
  pattern.children = std::move(children);
  return pattern;
}

bool is_infinite(const Number& number) {
  return std::isinf(number.coefficient);
}

// Extrema with constants as the e-graph keeps them: min(max(x, lo), hi) is one clamp.
Pattern make_clamp(const Pattern& x, Number low, Number high) {
  if (x.kind == Pattern::Kind::Apply && x.op == Op::Clamp) {
    if (is_infinite(low) && is_infinite(x.params[1]))
      low = x.params[0];
    else if (is_infinite(high) && is_infinite(x.params[0]))
      high = x.params[1];
    else
      return make_apply(Op::Clamp, {low, high}, {x});
    return make_apply(Op::Clamp, {low, high}, {x.children[0]});
  }
  return make_apply(Op::Clamp, {low, high}, {x});
}

Pattern lower(const ir::Graph& graph, ir::Value value) {
  const ir::Node& node = graph[value];
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (node.op == Op::Input) {
    const auto found = std::find(kVariables.begin(), kVariables.end(), node.name);
    ATTACCA_CHECK(found != kVariables.end(), "a rule uses an unknown name: " + node.name);
    Pattern pattern;
    pattern.kind = Pattern::Kind::Variable;
    pattern.variable = static_cast<size_t>(found - kVariables.begin());
    return pattern;
  }
  if (node.op == Op::Constant) {
    ATTACCA_CHECK(node.literal.has_value(), "a rule holds a tensor");
    return make_number(number_of(node.literal->value));
  }
  std::vector<Pattern> x;
  for (const ir::Value operand : node.operands) x.push_back(lower(graph, operand));
  switch (node.op) {
    case Op::Add:
      return make_sum(x[0], x[1]);
    case Op::Sub:
      return make_sum(x[0], negated(x[1]));
    case Op::Neg:
      return negated(x[0]);
    case Op::Mul:
      return make_product(x[0], 1, x[1], 1);
    case Op::Div:
      return make_product(x[0], 1, x[1], -1);
    case Op::Square:
      return make_product(x[0], 2, make_number({}), 1);
    case Op::Pow:
      if (const double e = x[1].number.coefficient; e == std::nearbyint(e))
        return make_product(x[0], static_cast<int>(e), make_number({}), 1);
      break;
    case Op::Log1p:
      return make_apply(Op::Log, {}, {make_sum(make_number({1}), x[0])});
    case Op::Expm1:
      return make_sum(make_apply(Op::Exp, {}, x), make_number({-1}));
    case Op::Erfc:
      return make_sum(make_number({1}), negated(make_apply(Op::Erf, {}, x)));
    case Op::Max:
      if (x[1].kind == Pattern::Kind::Number) return make_clamp(x[0], x[1].number, {kInfinity});
      break;
    case Op::Min:
      if (x[1].kind == Pattern::Kind::Number) return make_clamp(x[0], {-kInfinity}, x[1].number);
      break;
    default:
      break;
  }
  std::vector<Number> params;
  for (const double param : node.params()) params.push_back(number_of(param));
  return make_apply(node.op, std::move(params), std::move(x));
}

ir::Graph parse(std::string_view formula) {
  auto graph = ir::parse_expression(mark_captures(formula));
  ATTACCA_CHECK(graph.has_value(), fmt::format("a rule does not parse: {}\n{}", formula,
                                               graph ? "" : to_string(graph.error())));
  return std::move(*graph);
}

// One op, even if lower() would rewrite it.
Pattern parse_result(std::string_view formula) {
  const ir::Graph graph = parse(formula);
  const ir::Node& root = graph[graph.outputs()[0].value];
  ATTACCA_CHECK(ir::is_elementwise(root.op), "a rule's result is one op");
  std::vector<Number> params;
  for (const double param : root.params()) params.push_back(number_of(param));
  std::vector<Pattern> children;
  for (const ir::Value operand : root.operands) children.push_back(lower(graph, operand));
  return make_apply(root.op, std::move(params), std::move(children));
}

void mark_bare(const Pattern& pattern, Rule& rule) {
  if (pattern.kind == Pattern::Kind::Variable) rule.bare[pattern.variable] = true;
  const bool selects = pattern.op == Op::Where || pattern.op == Op::Max || pattern.op == Op::Min;
  if (pattern.kind == Pattern::Kind::Apply && !selects) return;
  for (const Pattern& child : pattern.children) mark_bare(child, rule);
}

std::vector<Rule> parse_table() {
  std::vector<Rule> table;
  for (const RuleText& text : kTexts) {
    Rule rule;
    rule.text = text;
    rule.formula = parse(text.pattern);
    rule.pattern = lower(rule.formula, rule.formula.outputs()[0].value);
    rule.result = parse_result(text.result);
    rule.op = rule.result.op;
    rule.defines = std::none_of(table.begin(), table.end(),
                                [&](const Rule& earlier) { return earlier.op == rule.op; });
    const bool gate = ir::info(rule.op).max_arity == 2;
    rule.gate = gate;
    // y * x * x is not rewritten for another order, nor y / sqrt(x) for another rounding.
    rule.whole = rule.op == Op::Square || rule.op == Op::Rsqrt;
    mark_bare(rule.pattern, rule);
    table.push_back(std::move(rule));
  }
  return table;
}

void collect_constants(const Pattern& pattern, std::vector<double>& into) {
  const auto add = [&](const Number& number) {
    const double value = std::fabs(number.coefficient);
    if (value == 0 || !std::isfinite(value)) return;
    into.push_back(value);
    into.push_back(1 / value);
  };
  add(pattern.number);
  for (const Number& param : pattern.params) add(param);
  for (const Pattern& child : pattern.children) collect_constants(child, into);
}

std::vector<double> ascending(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::vector<double> products(std::span<const double> a, std::span<const double> b) {
  std::vector<double> values;
  for (const double x : a)
    for (const double y : b) values.push_back(x * y);
  return ascending(std::move(values));
}

bool is_near(std::span<const double> ascending, double value, double reach) {
  const auto found = std::lower_bound(ascending.begin(), ascending.end(), value * (1 - reach));
  return found != ascending.end() && *found <= value * (1 + reach);
}

}  // namespace

std::optional<double> Number::value(std::span<const std::optional<double>> captures) const {
  double result = coefficient;
  for (size_t i = 0; i < exponents.size(); ++i) {
    if (exponents[i] == 0) continue;
    if (!captures[i]) return std::nullopt;
    result *= std::pow(*captures[i], exponents[i]);
  }
  return result;
}

std::span<const RuleText> rule_texts() {
  return kTexts;
}

std::optional<Captured> captured(double literal) {
  for (size_t i = 0; i < std::size(kMarks); ++i)
    if (std::fabs(literal) == kMarks[i]) return Captured{i, literal < 0 ? -1.0 : 1.0};
  return std::nullopt;
}

std::span<const Rule> rules() {
  return immortal([] { return parse_table(); });
}

const Rule* definition(Op op) {
  const auto& by_op = immortal([] {
    std::map<Op, const Rule*> map;
    for (const Rule& rule : rules())
      if (rule.defines) map.emplace(rule.op, &rule);
    return map;
  });
  const auto found = by_op.find(op);
  return found == by_op.end() ? nullptr : found->second;
}

std::span<const double> exact_constants() {
  const auto& constants = immortal([] {
    std::vector<double> values;
    for (const Rule& rule : rules()) collect_constants(rule.pattern, values);
    std::erase_if(values,
                  [](double value) { return is_near(irrational_constants(), value, 1e-9); });
    return ascending(std::move(values));
  });
  return constants;
}

std::span<const double> irrational_constants() {
  const auto& constants = immortal([] {
    std::vector<double> values;
    for (const double value : kIrrational) values.insert(values.end(), {value, 1 / value});
    return ascending(std::move(values));
  });
  return constants;
}

std::span<const double> exact_products() {
  const auto& values = immortal([] { return products(exact_constants(), exact_constants()); });
  return values;
}

std::span<const double> irrational_products() {
  const auto& values = immortal([] {
    std::vector<double> all = products(irrational_constants(), exact_constants());
    const auto squares = products(irrational_constants(), irrational_constants());
    all.insert(all.end(), squares.begin(), squares.end());
    // sqrt(2) * sqrt(2) is 2, which must match exactly.
    std::erase_if(all, [](double value) {
      return is_near(exact_constants(), value, 1e-5) || is_near(exact_products(), value, 1e-5);
    });
    return ascending(std::move(all));
  });
  return values;
}

}  // namespace attacca::fold
