// Every row of the rule table: its sides agree in value, and fold finds it.
#include <cmath>
#include <map>

#include "fmt/format.h"

#include "evaluator.hpp"
#include "fold/rule.hpp"
#include "fold_testing.hpp"

namespace attacca::fold {
namespace {

const std::vector<double> kX =
    special_numbers({1e-4, 0.3, 1, 2.5, 3, 6, 9.5, 17, 20.5, 25, 30, 700, 800, 1e9, 1e30});
const std::vector<double> kY = special_numbers({1.375});

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

class Row : public testing::TestWithParam<RuleText> {};

// How the sides differ at a sample, named as in the table.
Differs difference(const Compared& compared) {
  switch (compared.verdict) {
    case Verdict::Same:
    case Verdict::Unknown:
      return Differs::Nowhere;
    case Verdict::Limit:
      return Differs::Overflow;
    case Verdict::Nan:
      return Differs::Nan;
    case Verdict::Differs:
      break;
  }
  return Differs::Single;
}

TEST_P(Row, PreservesValues) {
  const RuleText& row = GetParam();
  const auto captures = captures_of(row);
  ASSERT_FALSE(captures.empty()) << "no captured constants satisfy " << row.condition;
  bool differed = false;
  int known = 0;
  for (const auto& values : captures) {
    const auto left = parsed(with_captures(row.pattern, values), ir::DType::F64);
    const auto right = parsed(with_captures(row.result, values), ir::DType::F64);
    const bool gate = right.inputs().size() == 2;
    for (const double x : kX)
      for (const double y : gate ? kY : std::vector{1.0}) {
        const Compared compared = compare(left, right, {{"x", x}, {"y", y}});
        known += compared.verdict != Verdict::Unknown;
        const Differs how = difference(compared);
        if (how == Differs::Nowhere) continue;
        differed |= how == row.differs;
        EXPECT_TRUE(how == row.differs || row.differs == Differs::Nan)
            << with_captures(row.pattern, values) << " -> " << with_captures(row.result, values)
            << " at x = " << x << ", y = " << y << ": " << compared.values;
        if (how != Differs::Single) continue;
        const double a = evaluated(left, {{"x", x}, {"y", y}}).value;
        const double b = evaluated(right, {{"x", x}, {"y", y}}).value;
        EXPECT_NEAR(a, b, 1e-9 * std::fabs(a)) << "beyond f32's rounding at x = " << x;
      }
  }
  EXPECT_GT(known, 30);
  EXPECT_EQ(differed, row.differs != Differs::Nowhere) << "the row claims: " << row.why;
  EXPECT_EQ(row.why.empty(), row.differs == Differs::Nowhere) << "say why";
}

TEST_P(Row, Folds) {
  const RuleText& row = GetParam();
  for (const auto& values : captures_of(row)) {
    const std::string pattern = with_captures(row.pattern, values);
    const std::string result = with_captures(row.result, values);
    expect_fold(pattern, row.differs == Differs::Nan ? unchanged : result.c_str());
    if (row.differs != Differs::Single) continue;
    EXPECT_NE(folded(pattern, ir::DType::F64), printed(parsed(result, ir::DType::F64)));
  }
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
