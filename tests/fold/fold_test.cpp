// Expressions and what they fold to.
#include "fmt/format.h"

#include "fold_testing.hpp"

namespace attacca::fold {
namespace {

struct Case {
  const char* text;
  const char* expected;
};

void PrintTo(const Case& test, std::ostream* out) {
  *out << test.text;
}

class Folds : public testing::TestWithParam<Case> {};
TEST_P(Folds, To) {
  expect_fold(GetParam().text, GetParam().expected);
}

const Case kLogistic[] = {
    {"1 / (1 + exp(-x))", "sigmoid(x)"},
    {"1 / (1 + exp(0 - x))", "sigmoid(x)"},
    {"1 / (exp(-x) + 1)", "sigmoid(x)"},
    {"1 / (1 + exp(-1 * x))", "sigmoid(x)"},
    {"1 / (1 + 1 / exp(x))", "sigmoid(x)"},
    {"reciprocal(1 + exp(-x))", "sigmoid(x)"},
    {"pow(1 + exp(-x), -1)", "sigmoid(x)"},
    {"exp(x) / (1 + exp(x))", "sigmoid(x)"},
    {"exp(x) / (exp(x) + 1)", "sigmoid(x)"},
    {"exp(x) * (1 / (1 + exp(x)))", "sigmoid(x)"},
    {"1 - 1 / (1 + exp(x))", "sigmoid(x)"},
    {"0.5 * (1 + tanh(x / 2))", "sigmoid(x)"},
    {"0.5 * (tanh(0.5 * x) + 1)", "sigmoid(x)"},
    {"0.5 + 0.5 * tanh(x * 0.5)", "sigmoid(x)"},
    {"(1 + tanh(x / 2)) / 2", "sigmoid(x)"},
    {"1 / (1 + exp(-(x + y)))", "sigmoid(x + y)"},
    {"1 / (1 + exp(-x - y))", "sigmoid(x + y)"},
    {"2 / (1 + exp(-x))", "sigmoid(x) * 2"},
    {"1 / (1 + exp(-(x * 1e-30)))", "sigmoid(x * 1e-30)"},
    {"1 / (1 + exp(-(x * 1e30)))", "sigmoid(x * 1e30)"},
    {"x / (1 + exp(-(x * 1e-20)))", "silu(x, alpha=1e-20)"},
    {"1 / (1 + exp(-2 * x))", "sigmoid(x * 2)"},
    {"1 / (1 + exp(-x)) + y", "sigmoid(x) + y"},
    {"(exp(x) - exp(-x)) / (exp(x) + exp(-x))", "tanh(x)"},
    {"(exp(2 * x) - 1) / (exp(2 * x) + 1)", "tanh(x)"},
    {"(1 - exp(-2 * x)) / (1 + exp(-2 * x))", "tanh(x)"},
    {"2 * sigmoid(2 * x) - 1", "tanh(x)"},
    {"2 / (1 + exp(-2 * x)) - 1", "tanh(x)"},
    {"1 - 2 / (exp(2 * x) + 1)", "tanh(x)"},
    {"expm1(2 * x) / (exp(2 * x) + 1)", "tanh(x)"},
};
INSTANTIATE_TEST_SUITE_P(Logistic, Folds, testing::ValuesIn(kLogistic));

const Case kSilu[] = {
    {"x / (1 + exp(-x))", "silu(x)"},
    {"x / (1 + exp(0 - x))", "silu(x)"},
    {"x * sigmoid(x)", "silu(x)"},
    {"sigmoid(x) * x", "silu(x)"},
    {"x * (1 / (1 + exp(-x)))", "silu(x)"},
    {"x * (1 / (1 + exp(0 - x)))", "silu(x)"},
    {"x * reciprocal(1 + exp(-x))", "silu(x)"},
    {"x * exp(x) / (1 + exp(x))", "silu(x)"},
    {"x * (exp(x) / (exp(x) + 1))", "silu(x)"},
    {"x / (1 + 1 / exp(x))", "silu(x)"},
    {"0.5 * x * (1 + tanh(x / 2))", "silu(x)"},
    {"x * 0.5 * (1 + tanh(x * 0.5))", "silu(x)"},
    {"x * (0.5 + 0.5 * tanh(x / 2))", "silu(x)"},
    {"0.5 * x + 0.5 * x * tanh(x / 2)", "silu(x)"},
    {"x / (2 + 2 * exp(-x))", "silu(x) * 0.5"},
    {"(x + y) / (1 + exp(-(x + y)))", "silu(x + y)"},
    {"(x + y) / (1 + exp(-x - y))", "silu(x + y)"},
    {"(x * y) * sigmoid(x * y)", "silu(x * y)"},
    {"(2 * x + 1) * sigmoid(2 * x + 1)", "silu(2 * x + 1)"},
    {"(-x) * sigmoid(-x)", "silu(-x)"},
    {"x * sigmoid(1.5 * x)", "silu(x, alpha=1.5)"},
    {"x / (1 + exp(-1.5 * x))", "silu(x, alpha=1.5)"},
    {"x / (1 + exp(x * -0.25))", "silu(x, alpha=0.25)"},
    {"x * sigmoid(1.702 * x)", "quick_gelu(x)"},
    {"x / (1 + exp(-1.702 * x))", "quick_gelu(x)"},
    {"x * (1 / (1 + exp(-(x * 1.702))))", "quick_gelu(x)"},
    {"sigmoid(x * 1.702) * x", "quick_gelu(x)"},
    {"x * sigmoid(1.7020000001 * x)", "quick_gelu(x)"},
    {"x * sigmoid(1.7021 * x)", "silu(x, alpha=1.7021)"},
    {"x * (1 + tanh(x / 2)) / 2", "silu(x)"},
    {"x * (tanh(0.5 * x) * 0.5 + 0.5)", "silu(x)"},
};
INSTANTIATE_TEST_SUITE_P(Silu, Folds, testing::ValuesIn(kSilu));

const Case kGelu[] = {
    {"x * 0.5 * (1 + erf(x * 0.70710678))", "gelu(x)"},
    {"0.5 * x * (1 + erf(x / 1.41421356))", "gelu(x)"},
    {"0.5 * x * (erf(x / sqrt(2)) + 1)", "gelu(x)"},
    {"x * 0.5 * erfc(x * -0.70710678)", "gelu(x)"},
    {"0.5 * (x * erfc(-x * 0.7071067811865476))", "gelu(x)"},
    {"0.5 * x * erfc(-x / 1.4142135)", "gelu(x)"},
    {"x * (0.5 * (1 + erf(x * 0.7071067811865475)))", "gelu(x)"},
    {"x * (1 + erf(x / 1.4142135623730951)) / 2", "gelu(x)"},
    {"x * (erf(x / 1.4142135381698608) + 1) * 0.5", "gelu(x)"},
    {"0.5 * x + 0.5 * x * erf(0.7071067811865476 * x)", "gelu(x)"},
    {"0.5 * x * (1 - erf(-0.70710678 * x))", "gelu(x)"},
    {"(x + y) * 0.5 * (1 + erf((x + y) * 0.70710678))", "gelu(x + y)"},
    {"x * 0.5 * (1 + tanh(0.7978845608 * (x + 0.044715 * pow(x, 3))))", "gelu_tanh(x)"},
    {"0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x * x * x)))", "gelu_tanh(x)"},
    {"0.5 * x * (1 + tanh(0.79788456 * x * (1 + 0.044715 * x * x)))", "gelu_tanh(x)"},
    {"0.5 * x * (1 + tanh(sqrt(2 / 3.141592653589793) * (x + 0.044715 * pow(x, 3))))",
     "gelu_tanh(x)"},
    {"0.5 * x * (1 + tanh(0.79788456 * x + 0.0356774081 * x * x * x))", "gelu_tanh(x)"},
    {"x * sigmoid(1.5957691216 * (x + 0.044715 * square(x) * x))", "gelu_tanh(x)"},
    {"x / (1 + exp(-1.5957691216 * (x + 0.044715 * pow(x, 3))))", "gelu_tanh(x)"},
    {"(x * y) * 0.5 * (1 + tanh(0.79788456 * (x * y + 0.044715 * pow(x * y, 3))))",
     "gelu_tanh(x * y)"},
};
INSTANTIATE_TEST_SUITE_P(Gelu, Folds, testing::ValuesIn(kGelu));

const Case kSoftplus[] = {
    {"log(1 + exp(x))", "softplus(x)"},
    {"log(exp(x) + 1)", "softplus(x)"},
    {"log1p(exp(x))", "softplus(x)"},
    {"max(x, 0) + log1p(exp(-abs(x)))", "softplus(x)"},
    {"log(1 + exp(-abs(x))) + max(0, x)", "softplus(x)"},
    {"relu(x) + log1p(exp(-abs(x)))", "softplus(x)"},
    {"-log(sigmoid(-x))", "softplus(x)"},
    {"where(x > 20, x, log(1 + exp(x)))", "softplus(x)"},
    {"0.5 * log(1 + exp(2 * x))", "0.5 * softplus(2 * x)"},
    {"log(sigmoid(x))", "-softplus(-x)"},
    {"log(1 + exp(-x))", "softplus(-x)"},
    {"x * tanh(softplus(x))", "mish(x)"},
    {"x * tanh(log(1 + exp(x)))", "mish(x)"},
    {"tanh(log1p(exp(x))) * x", "mish(x)"},
    {"x * (square(1 + exp(x)) - 1) / (square(1 + exp(x)) + 1)", "mish(x)"},
    {"x * (exp(x) * exp(x) + 2 * exp(x)) / (exp(x) * exp(x) + 2 * exp(x) + 2)", "mish(x)"},
};
INSTANTIATE_TEST_SUITE_P(Softplus, Folds, testing::ValuesIn(kSoftplus));

const Case kPiecewise[] = {
    {"max(x, 0)", "relu(x)"},
    {"max(0, x)", "relu(x)"},
    {"where(x < 0, 0, x)", "relu(x)"},
    {"where(x <= 0, 0, x)", "relu(x)"},
    {"clamp(x, min=0)", "relu(x)"},
    {"max(-x, 0)", "relu(-x)"},
    {"max(-2 * x, 0)", "relu(-2 * x)"},
    {"min(max(x, 0), 6)", "relu6(x)"},
    {"max(min(x, 6), 0)", "relu6(x)"},
    {"min(relu(x), 6)", "relu6(x)"},
    {"clamp(x, min=0, max=6)", "relu6(x)"},
    {"where(x > 0, x, 0.01 * x)", "leaky_relu(x)"},
    {"where(x >= 0, x, 0.2 * x)", "leaky_relu(x, alpha=0.2)"},
    {"where(x < 0, 0.2 * x, x)", "leaky_relu(x, alpha=0.2)"},
    {"where(x <= 0, x * 0.2, x)", "leaky_relu(x, alpha=0.2)"},
    {"max(x, 0.2 * x)", "leaky_relu(x, alpha=0.2)"},
    {"max(0.2 * x, x)", "leaky_relu(x, alpha=0.2)"},
    {"max(x, x / 5)", "leaky_relu(x, alpha=0.2)"},
    {"max(-x, -0.2 * x)", "leaky_relu(-x, alpha=0.2)"},
    {"min(x, 3 * x)", "leaky_relu(x, alpha=3)"},
    {"relu(x) - 0.2 * relu(-x)", "leaky_relu(x, alpha=0.2)"},
    {"max(x, 0) + 0.2 * min(x, 0)", "leaky_relu(x, alpha=0.2)"},
    {"where(x + y > 0, x + y, 0.2 * (x + y))", "leaky_relu(x + y, alpha=0.2)"},
    {"where(x > 0, x, exp(x) - 1)", "elu(x)"},
    {"where(x > 0, x, expm1(x))", "elu(x)"},
    {"where(x > 0, x, 0.5 * (exp(x) - 1))", "elu(x, alpha=0.5)"},
    {"where(x < 0, 0.5 * expm1(x), x)", "elu(x, alpha=0.5)"},
    {"where(x >= 0, x, 0.5 * exp(x) - 0.5)", "elu(x, alpha=0.5)"},
    {"max(x, 0) + min(0, exp(x) - 1)", "elu(x)"},
    {"relu(x) + min(0, 0.5 * (exp(x) - 1))", "elu(x, alpha=0.5)"},
    {"relu(x) + 0.5 * (exp(min(x, 0)) - 1)", "elu(x, alpha=0.5)"},
    {"1.0507009873554805 * elu(x, alpha=1.6732632423543772)", "selu(x)"},
    {"1.05070098 * where(x > 0, x, 1.67326324 * (exp(x) - 1))", "selu(x)"},
    {"where(x > 0, 1.0507009873554805 * x, 1.7580993408473766 * (exp(x) - 1))", "selu(x)"},
    {"where(x > 0, x * 1.0507010221481323, expm1(x) * 1.758099353313446)", "selu(x)"},
    {"where(x > 0, x * 1, expm1(x * 1) * 0.5)", "elu(x, alpha=0.5)"},
    {"min(max(x, -2), 3)", "clamp(x, min=-2, max=3)"},
    {"max(min(x, 3), -2)", "clamp(x, min=-2, max=3)"},
    {"min(max(-x, -2), 3)", "clamp(-x, min=-2, max=3)"},
    {"max(min(2 * x, 3), -2)", "clamp(2 * x, min=-2, max=3)"},
    {"min(max(min(max(x, -9), 9), -2), 3)", "clamp(x, min=-2, max=3)"},
    {"clamp(clamp(x, min=-2), max=3)", "clamp(x, min=-2, max=3)"},
    {"where(x > 3, 3, x)", "clamp(x, max=3)"},
    {"where(x < -2, -2, where(x > 3, 3, x))", "clamp(x, min=-2, max=3)"},
    {"where(x > 3, 3, max(x, -2))", "clamp(x, min=-2, max=3)"},
    {"x * clamp(x + 3, min=0, max=6) / 6", "hardswish(x)"},
    {"x * relu6(x + 3) / 6", "hardswish(x)"},
    {"x * (relu6(x + 3) * 0.16666667)", "hardswish(x)"},
    {"x * min(max(x + 3, 0), 6) * (1 / 6)", "hardswish(x)"},
    {"x * hardsigmoid(x)", "hardswish(x)"},
    {"x * clamp(x / 6 + 0.5, min=0, max=1)", "hardswish(x)"},
    {"(x + y) * relu6(x + y + 3) / 6", "hardswish(x + y)"},
    {"(x + 1) * relu6(x + 4) / 6", "hardswish(x + 1)"},
    {"relu6(x + 3) / 6", "hardsigmoid(x)"},
    {"clamp(x / 6 + 0.5, min=0, max=1)", "hardsigmoid(x)"},
    {"min(max(0.2 * x + 0.5, 0), 1)", "hardsigmoid(x, alpha=0.2, beta=0.5)"},
};
INSTANTIATE_TEST_SUITE_P(Piecewise, Folds, testing::ValuesIn(kPiecewise));

const Case kPowers[] = {
    {"1 / sqrt(x)", "rsqrt(x)"},
    {"reciprocal(sqrt(x))", "rsqrt(x)"},
    {"1 / sqrt(x + y)", "rsqrt(x + y)"},
    {"pow(x * x + 1e-5, -0.5)", "rsqrt(square(x) + 1e-5)"},
    {"1 / pow(abs(x), 0.5)", "rsqrt(abs(x))"},
    {"pow(clamp(x, min=1e-6), -0.5)", "rsqrt(clamp(x, min=1e-6))"},
    {"x * x", "square(x)"},
    {"pow(x, 2)", "square(x)"},
    {"(x + y) * (x + y)", "square(x + y)"},
};
INSTANTIATE_TEST_SUITE_P(Powers, Folds, testing::ValuesIn(kPowers));

const Case kGates[] = {
    {"silu(x) * y", "swiglu(x, y)"},
    {"y * x / (1 + exp(-x))", "swiglu(x, y)"},
    {"y * (x * sigmoid(x))", "swiglu(x, y)"},
    {"x / (1 + exp(-x)) * y", "swiglu(x, y)"},
    {"x * y * sigmoid(x)", "swiglu(x, y)"},
    {"x * sigmoid(1.702 * x) * y", "swiglu(x, y, alpha=1.702)"},
    {"gelu(x) * y", "geglu(x, y)"},
    {"y * x * 0.5 * (1 + erf(x * 0.70710678))", "geglu(x, y)"},
    {"0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x * x * x))) * y", "geglu_tanh(x, y)"},
    {"relu(x) * y", "reglu(x, y)"},
    {"max(x, 0) * y", "reglu(x, y)"},
    {"min(x, 7) * sigmoid(1.702 * min(x, 7)) * (clamp(y, min=-7, max=7) + 1)",
     "clamped_swiglu(x, y)"},
    {"(clamp(y, min=-5, max=5) + 2) * (min(x, 5) / (1 + exp(-1.5 * min(x, 5))))",
     "clamped_swiglu(x, y, alpha=1.5, limit=5, one=2)"},
};
INSTANTIATE_TEST_SUITE_P(Gates, Folds, testing::ValuesIn(kGates));

const Case kLookAlikes[] = {
    {"a * sigmoid(b)", unchanged},
    {"x / (1 + exp(-y))", unchanged},
    {"sigmoid(x)", unchanged},
    {"x / (1 + exp(x))", unchanged},
    {"x * sigmoid(-x)", unchanged},
    {"1 / (1 + exp(x))", unchanged},
    {"1 / (2 + exp(-x))", unchanged},
    {"x / (1.001 + exp(-x))", unchanged},
    {"x / (1 - exp(-x))", unchanged},
    {"x / (exp(-x) - 1)", unchanged},
    {"x * 0.5 * (1 + erf(x * 0.7))", unchanged},
    {"x * 0.5 * (1 + erf(y * 0.70710678))", unchanged},
    {"x * 0.5 * (1 - erf(x * 0.70710678))", unchanged},
    {"x * 0.5 * erfc(x * 0.70710678)", unchanged},
    {"x * 0.5 * (2 + erf(x * 0.70710678))", unchanged},
    {"0.5 * x * (1 + tanh(0.79788456 * (x + 0.05 * x * x * x)))", unchanged},
    {"0.5 * x * (1 + tanh(0.79788456 * (x - 0.044715 * x * x * x)))", unchanged},
    {"0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x * y * x)))", unchanged},
    {"log(2 + exp(x))", unchanged},
    {"log(1 + exp(x) * 2)", unchanged},
    {"y * tanh(softplus(x))", unchanged},
    {"max(x, 1)", unchanged},
    {"max(x, y)", unchanged},
    {"max(x, 1.5 * x)", unchanged},
    {"max(x, -0.5 * x)", unchanged},
    {"max(x, 0.5 * y)", unchanged},
    {"min(x, 0)", unchanged},
    {"where(y > 0, x, 0)", unchanged},
    {"where(x > 1, x, 0)", unchanged},
    {"where(x < 0, x, 0)", unchanged},
    {"where(x > 0, x, 0.5 * y)", unchanged},
    {"where(x > 0, x, exp(x) + 1)", unchanged},
    {"where(x > 0, x, exp(y) - 1)", unchanged},
    {"x * clamp(x + 2, min=0, max=6) / 6", "x * relu6(x + 2) / 6"},
    {"x * clamp(y + 3, min=0, max=6) / 6", "x * relu6(y + 3) / 6"},
    {"x * y", unchanged},
    {"x * x * x", "square(x) * x"},
    {"(x + y - y) * sigmoid(x)", unchanged},
    {"x / y * y * sigmoid(x)", unchanged},
    {"x + 1 + 2", unchanged},
    {"2 * x * 3", unchanged},
    {"x / 3", unchanged},
    {"(x + 1) - 1", unchanged},
    {"exp(x) * exp(y)", unchanged},
    {"y / sqrt(x)", unchanged},
    {"3 / sqrt(x)", unchanged},
    {"y * x * x", unchanged},
    {"x * y + x * z", unchanged},
    {"y * tanh(x)", unchanged},
    {"relu(x) * x", unchanged},
    {"silu(x) * 2", unchanged},
    {"clamp(x, min=3, max=1)", unchanged},
    {"min(max(x, 3), 1)", unchanged},
};
INSTANTIATE_TEST_SUITE_P(LookAlikes, Folds, testing::ValuesIn(kLookAlikes));

// Formulas that equal an op for real numbers, but are NaN at other inputs than the op.
const Case kNotAtSpecialValues[] = {
    {"where(x > 0, x, 0)", unchanged},
    {"where(x >= 0, x, 0)", unchanged},
    {"where(0 < x, x, 0)", unchanged},
    {"where(x > 0, x, 0) * y", unchanged},
    {"min(where(x > 0, x, 0), 6)", unchanged},
    {"where(x < 3, x, 3)", unchanged},
    {"where(x > -2, min(x, 3), -2)", unchanged},
    {"(x + abs(x)) / 2", unchanged},
    {"0.5 * (abs(x) + x) * y", unchanged},
    {"x - x * sigmoid(-x)", unchanged},
    {"pow(x, -0.5)", unchanged},
    {"1 / pow(x, 0.5)", unchanged},
    {"pow(max(x, 0), -0.5)", "pow(relu(x), -0.5)"},
    {"exp(2 * log(x))", unchanged},
    {"relu(x) - 3 * relu(x)", unchanged},
    {"max(2 * x, -5e-324)", unchanged},
    {"exp(-log(x)) * x", unchanged},
};
INSTANTIATE_TEST_SUITE_P(NotAtSpecialValues, Folds, testing::ValuesIn(kNotAtSpecialValues));

// Constants that differ from a formula's.
const Case kNearMisses[] = {
    {"max(x, 0) * 1.0000009", "relu(x) * 1.0000009"},
    {"max(x, 0) * 1.0000001", "relu(x) * 1.0000001"},
    {"max(x, 0) * 1.0000000001", "relu(x) * 1.0000000001"},
    {"pow(x, 2.000001)", unchanged},
    {"pow(x, 2.0000001)", unchanged},
    {"pow(x, 1.9999998807907104)", unchanged},
    {"pow(abs(x), -0.5000001)", unchanged},
    {"x / (1.0000001 + exp(-x))", unchanged},
    {"x / (1 + exp(-1.0000001 * x))", "silu(x, alpha=1.0000001)"},
    {"1 / (0.99999994 + exp(-x))", unchanged},
    {"x * 0.5000001 * (1 + erf(x * 0.70710678))", "gelu(x) * 1.0000002"},
    {"x * 0.5 * (1.0000001 + erf(x * 0.70710678))", unchanged},
    {"x * 0.5 * (1 + erf(x * 0.707108))", unchanged},
    {"0.5 * x * (1 + tanh(0.79788456 * (x + 0.04471501 * x * x * x)))", unchanged},
    {"x * relu6(x + 3.0000002) / 6", unchanged},
    {"min(max(x, 0), 6.0000005)", "clamp(x, min=0, max=6.0000005)"},
    {"x * 3 * 0.3333333", unchanged},
};
INSTANTIATE_TEST_SUITE_P(NearMisses, Folds, testing::ValuesIn(kNearMisses));

class FoldsInF64 : public testing::TestWithParam<Case> {};
TEST_P(FoldsInF64, To) {
  expect_fold(GetParam().text, GetParam().expected, ir::DType::F64);
}

const Case kF64[] = {
    {"x * 0.5 * (1 + erf(x * 0.7071067811865476))", "gelu(x)"},
    {"x * 0.5 * (1 + erf(x / 1.4142135623731))", "gelu(x)"},
    {"x * (relu6(x + 3) / 6)", "hardswish(x)"},
    {"x * 0.5 * (1 + erf(x * 0.70710678))", unchanged},
    {"x * 0.5 * (1.0000005 + erf(x * 0.70710678))", unchanged},
    {"x * 0.5 * (1.0000005 + erf(x * 0.7071067811865476))", unchanged},
    {"x * 0.5 * (1.000000000001 + erf(x * 0.7071067811865476))", unchanged},
    {"x * sigmoid(1.7020000001 * x)", "silu(x, alpha=1.7020000001)"},
    {"max(x, 0) * 1.000000000001", "relu(x) * 1.000000000001"},
    {"pow(x, 2.0000000000000004)", unchanged},
    {"max(x, 0) * 1.0000000000000002", "relu(x) * 1.0000000000000002"},
    {"x / (0.9999999999999999 + exp(-x))", unchanged},
    {"clamp(x, min=0, max=6.000000000000001)", unchanged},
    {"x * relu6(x + 3) * 0.16666666666666669", unchanged},
    {"where(x > 20, x, log1p(exp(x)))", "where(x > 20, x, softplus(x))"},
};
INSTANTIATE_TEST_SUITE_P(F64, FoldsInF64, testing::ValuesIn(kF64));

// A formula's constant, rounded to the graph's dtype, still matches.
TEST(FoldConstants, RoundedByTheModel) {
  for (const char* dtype : {"f32", "f16", "bf16"}) {
    const auto graph = [&](const std::string& body, double third, double cubic) {
      return graph_of(
          fmt::format("graph g(x: {0}[4]) {{\n  a = constant({1}, {0})\n"
                      "  b = constant({2}, {0})\n  return {3}\n}}",
                      dtype, third, cubic, body));
    };
    const std::string hardswish = "x * (relu6(x + 3) * a)";
    const std::string gelu = "0.5 * x * (1 + tanh(0.7978845608028654 * (x + b * x * x * x)))";
    for (const auto& [body, op] : {std::pair{hardswish, "hardswish"}, {gelu, "gelu_tanh"}}) {
      const ir::Graph result = fold(graph(body, 1.0 / 6, 0.044715)).graph;
      EXPECT_EQ(ir::name(result[result.outputs()[0].value].op), op) << dtype << ": " << body;
      const ir::Graph other = fold(graph(body, 1.0 / 6 + 0.004, 0.0451)).graph;
      EXPECT_NE(ir::name(other[other.outputs()[0].value].op), op) << dtype << ": " << body;
    }
  }
}

// A constant that is coarser than the results of its ops is the number that it holds: the ops do
// not round away what a formula's own constant would change.
TEST(FoldConstants, RoundedMoreCoarselyThanTheOps) {
  for (const char* text : {
           "graph g(h: f32[4]) { return h * sigmoid(h * constant(bf16[1], [1.703125])) }",
           "graph g(h: f32[4]) { return h * 0.5 * (1 + erf(h * constant(bf16[1], [0.70703125]))) }",
           "graph g(h: f64[4]) { return h * 0.5 * (1 + erf(h * constant(f32[1], [0.70710678]))) }",
           "graph g(h: f32[4]) { return constant(bf16[1], [1.046875]) * where(h > 0, h, "
           "1.6732632423543772 * (exp(h) - 1)) }",
       }) {
    const FoldResult folded = fold(graph_of(text));
    const ir::Node& result = folded.graph[folded.graph.outputs()[0].value];
    for (const char* op : {"gelu", "selu", "quick_gelu"})
      EXPECT_NE(ir::name(result.op), op) << text;
  }
}

// A literal's quotient is not written as a tensor's element that is near to it.
TEST(FoldConstants, OfALiteralBesideARoundedOne) {
  const ir::Graph folded = fold(graph_of("graph g(x: bf16[4]) {\n"
                                         "  a = where(x < 0, constant(bf16[1], [0.1669921875]) * "
                                         "x, x)\n  return a, b = where(x < 0, x / 6, x)\n}"))
                               .graph;
  const ir::Node& b = folded[folded.outputs()[1].value];
  ASSERT_EQ(b.op, ir::Op::LeakyRelu);
  EXPECT_EQ(b.params()[0], 1.0 / 6);
}

}  // namespace
}  // namespace attacca::fold
