// The printed reason for which a match fails.
#include "fold_testing.hpp"

namespace attacca::fold {
namespace {

void expect_why_not(const std::string& text, std::string_view op, const std::string& expected) {
  const auto reason = why_not(parsed(text), op);
  ASSERT_TRUE(reason.has_value()) << to_string(reason.error());
  EXPECT_EQ(*reason, expected) << text;
}

TEST(WhyNot, NamesTheNearestRuleAndThePlace) {
  expect_why_not("a * sigmoid(b)", "silu",
                 "silu(x) = x * sigmoid(x): wanted x = a, got b, at operand 1 of sigmoid");
  expect_why_not("x / (1 + exp(-y))", "silu",
                 "silu(x) = x / (1 + exp(-x)): wanted x = x, got y, at operand 1 of neg");
  expect_why_not("x / (2 + exp(0 - x)) + y", "silu",
                 "silu(x) = x / (1 + exp(-x)): wanted 1, got 2, at operand 1 of add");
  expect_why_not("x * 0.5 * (1 + erf(x * 0.7))", "gelu",
                 "gelu(x) = 0.5 * x * (1 + erf(x * 0.7071067811865476)): wanted "
                 "0.7071067811865476, got 0.7, at operand 2 of mul");
  expect_why_not("x / (1 + exp(x))", "silu",
                 "silu(x) = x / (1 + exp(-x)): wanted neg, got x, at operand 1 of exp");
}

TEST(WhyNot, NamesAFailedCondition) {
  expect_why_not("max(x, 2 * x)", "leaky_relu",
                 "leaky_relu(x, alpha=a) = max(x, a * x): wanted a > 0 && a < 1, got a = 2");
}

TEST(WhyNot, NamesADifferenceAtSpecialValues) {
  expect_why_not("where(x > 0, x, 0)", "relu",
                 "relu(x) = where(x > 0, x, 0): a comparison drops NaN, relu propagates it");
  expect_why_not("0.5 * (x + abs(x))", "relu",
                 "relu(x) = 0.5 * (x + abs(x)): -inf + inf is NaN where relu is 0");
}

TEST(WhyNot, TakesConstantsAsFoldDoes) {
  expect_why_not("min(max(x, 0), 6.0000005)", "relu6",
                 "relu6(x) = min(max(x, 0), 6): wanted 6, got 6.0000005, at operand 2 of min");
}

TEST(WhyNot, SaysWhenItDoesFold) {
  expect_why_not("x / (1 + exp(-x))", "silu", "it folds to silu(x)");
}

TEST(WhyNot, NamesTheDtype) {
  const auto reason = why_not(parsed("max(x, 0)", ir::DType::S32), "relu");
  ASSERT_TRUE(reason.has_value());
  EXPECT_EQ(*reason, "relu(x) = max(x, 0): wanted floats, got s32");
}

TEST(WhyNot, AnOpWithoutRulesIsAnError) {
  EXPECT_FALSE(why_not(parsed("x + 1"), "matmul").has_value());
  EXPECT_FALSE(why_not(parsed("x + 1"), "sigmoyd").has_value());
}

}  // namespace
}  // namespace attacca::fold
