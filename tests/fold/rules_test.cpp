// Every row of the rule table: its sides agree in value, and fold finds it.
#include <cmath>
#include <limits>
#include <map>

#include "fmt/format.h"

#include "fold/rule.hpp"
#include "fold_testing.hpp"
#include "ir/interpreter.hpp"

namespace attacca::fold {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const std::vector<double> kSamples = {
    0,   -0.0, 1e-30, -1e-30, 1e-4, -1e-4, 0.3, -0.3, 1,   -1,   2.5,  -2.5,  3.0,  -3,    6,   -6,
    9.5, -9.5, 30,    -30,    700,  -700,  800, -800, 1e9, -1e9, 1e30, -1e30, kInf, -kInf, kNan};

std::string with_captures(std::string_view formula, const std::array<double, 4>& values) {
  std::string result;
  for (size_t i = 0; i < formula.size();) {
    size_t end = i;
    while (end < formula.size() && (std::isalnum(formula[end]) || formula[end] == '_')) ++end;
    const std::string_view word = formula.substr(i, std::max<size_t>(end - i, 1));
    const auto capture = std::find(kCaptures.begin(), kCaptures.end(), word);
    result += capture == kCaptures.end() ? std::string(word)
                                         : fmt::format("{}", values[capture - kCaptures.begin()]);
    i += word.size();
  }
  return result;
}

// Values of the captured constants under which the row's condition holds.
std::vector<std::array<double, 4>> captures_of(const RuleText& row) {
  std::vector<std::array<double, 4>> result;
  for (const std::array<double, 4>& values : {std::array{0.37, 0.61, -1.25, 2.75},
                                              {1.75, 1.0, -7.0, 7.0},
                                              {0.9, 2.5, 1.5, 4.5},
                                              {3.5, 0.25, -6.0, -2.0}})
    if (row.holds(values[0], values[1], values[2], values[3])) result.push_back(values);
  return result;
}

std::vector<double> run(const ir::Graph& graph) {
  const auto n = static_cast<int64_t>(kSamples.size());
  ir::Bindings inputs;
  for (const ir::Value input : graph.inputs()) {
    const std::string& name = graph[input].name;
    std::vector<double> values = kSamples;
    if (name == "y") std::fill(values.begin(), values.end(), -1.375);
    inputs.emplace(name, ir::Tensor::of(ir::DType::F64, {n}, values));
  }
  const auto outputs = ir::interpret(graph, inputs);
  if (!outputs) throw std::runtime_error(to_string(outputs.error()));
  std::vector<double> result;
  for (int64_t i = 0; i < n; ++i) result.push_back((*outputs)[0].number_at(i));
  return result;
}

bool may_differ(Differs differs, double sample) {
  switch (differs) {
    case Differs::Nowhere:
      return false;
    case Differs::Nan:
      return std::isnan(sample);
    case Differs::Edge:
      return std::isinf(sample) || (sample == 0 && std::signbit(sample));
    case Differs::Overflow:
      return std::fabs(sample) >= 350;
  }
  return false;
}

bool agree(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (std::isinf(a) || std::isinf(b)) return a == b;
  return std::fabs(a - b) <= 1e-12 * std::max({1.0, std::fabs(a), std::fabs(b)});
}

class Row : public testing::TestWithParam<RuleText> {};

TEST_P(Row, PreservesValues) {
  const RuleText& row = GetParam();
  const auto captures = captures_of(row);
  ASSERT_FALSE(captures.empty()) << "no captured constants satisfy " << row.condition;
  bool differed = false;
  for (const auto& values : captures) {
    const auto left = run(parsed(with_captures(row.pattern, values), ir::DType::F64));
    const auto right = run(parsed(with_captures(row.result, values), ir::DType::F64));
    for (size_t i = 0; i < kSamples.size(); ++i) {
      if (agree(left[i], right[i])) continue;
      differed = true;
      EXPECT_TRUE(may_differ(row.differs, kSamples[i]))
          << with_captures(row.pattern, values) << " = " << left[i] << ", "
          << with_captures(row.result, values) << " = " << right[i] << " at x = " << kSamples[i];
    }
  }
  EXPECT_EQ(differed, row.differs != Differs::Nowhere)
      << "the row claims a difference: " << row.why;
  EXPECT_EQ(row.why.empty(), row.differs == Differs::Nowhere) << "say why";
}

TEST_P(Row, Folds) {
  const RuleText& row = GetParam();
  for (const auto& values : captures_of(row))
    expect_fold(with_captures(row.pattern, values), with_captures(row.result, values).c_str());
}

INSTANTIATE_TEST_SUITE_P(Table, Row, testing::ValuesIn(rule_texts().begin(), rule_texts().end()),
                         [](const auto& info) {
                           return fmt::format("{}_{}", info.param.name, info.index);
                         });

TEST(RuleTable, DefinesAnOpBeforeItIsUsed) {
  // An op whose definition used itself, or a later one, would be expanded forever.
  std::vector<ir::Op> defined;
  const auto uses_later = [&](const auto& self, const Pattern& pattern) -> bool {
    if (pattern.kind == Pattern::Kind::Apply && definition(pattern.op) &&
        std::find(defined.begin(), defined.end(), pattern.op) == defined.end() &&
        pattern.op != ir::Op::Clamp)
      return true;
    return std::any_of(pattern.children.begin(), pattern.children.end(),
                       [&](const Pattern& child) { return self(self, child); });
  };
  for (const Rule& rule : rules()) {
    if (!rule.defines) continue;
    EXPECT_FALSE(uses_later(uses_later, rule.pattern)) << rule.text.pattern;
    defined.push_back(rule.op);
  }
}

}  // namespace
}  // namespace attacca::fold
