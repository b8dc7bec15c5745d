// Numbers near the ends of a dtype: where a graph's value is finite, so is the folded one.
#include <cmath>

#include "fold_testing.hpp"
#include "ir/interpret/interpreter.hpp"

namespace attacca::fold {
namespace {

// Numbers next to the largest ones, which a rounding makes infinite. A stands for a constant, X for
// an expression of x.
const char* const kFormulas[] = {
    "where(X < 0, A * expm1(X / A), X)",
    "where(X > 0, X, A * (exp(X / A) - 1))",
    "max(X, 0) + min(A * (exp(X / A) - 1), 0)",
    "max(X, 0) + A * expm1(min(X, 0) / A)",
    "A * X * (1 + tanh(0.5 * X))",
    "A * X * (1 + erf(X / 1.4142135623730951))",
    "A * X * (1 + tanh(0.7978845608028654 * X * (1 + 0.044715 * X * X)))",
    "X * sigmoid(A * X)",
    "X * sigmoid(A * (2 * X))",
    "X * relu6(A * X + 3)",
    "-(2 * X) * (relu6(A * X + 3) * 0.16666666666666666)",
    "relu6(X + 3) / A",
    "relu6(A * X + 3) / 6",
    "clamp(A * X, min=-1, max=2)",
    "max(X, A * X)",
    "min(X, A * X)",
    "max(X, 0) + A * min(X, 0)",
    "max(A * X, 0)",
    "A * max(X, 0)",
    "A / (1 + exp(-X))",
    "1 / (1 + exp(-(A * X)))",
    "log(1 + exp(A * X)) / A",
    "A * log1p(exp(X))",
    "2 * sigmoid(2 * A * X) - 1",
    "A * (1 - 2 / (exp(2 * X) + 1))",
    "A * X * tanh(log1p(exp(X)))",
    "A / sqrt(X * X + 1)",
};
const char* const kOperands[] = {"x", "(2 * x)", "(x / 3)", "(-x)", "(x - 1)"};
const char* const kConstants[] = {"0.1",  "0.25", "3",     "1e4",   "1e-4",
                                  "1e20", "1e30", "1e-20", "1e-30", "3e38"};

std::string filled(const std::string& formula, const char* operand, const char* number) {
  std::string text;
  for (const char c : formula) text += c == 'X' ? operand : c == 'A' ? number : std::string(1, c);
  return text;
}

std::vector<double> computed(const ir::Graph& graph, const std::vector<double>& x) {
  const ir::Value input = graph.inputs()[0];
  const auto count = static_cast<int64_t>(x.size());
  ir::Bindings inputs;
  inputs.emplace("x", ir::Tensor::of(graph.type(input).dtype, {count}, x));
  const auto result = ir::interpret(graph, inputs, {.precision = ir::Precision::Fp32});
  if (!result) throw std::runtime_error(to_string(result.error()));
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back((*result)[0].number_at(i));
  return values;
}

// Returns whether the expression folds.
bool stays_finite(const std::string& text, ir::DType dtype, double huge) {
  const ir::Graph graph = parsed(text, dtype);
  const FoldResult result = fold(graph);
  std::vector<double> x;
  for (const double size : {huge, huge / 2, huge / 20, std::sqrt(huge), 95.0, 3.0, 0.5, 0.0})
    x.insert(x.end(), {size, -size});
  const auto before = computed(graph, x), after = computed(result.graph, x);
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_TRUE(!std::isfinite(before[i]) || std::isfinite(after[i]))
        << ir::name(dtype) << ": " << text << " folds to " << printed(result.graph)
        << ", and at x = " << x[i] << ' ' << before[i] << " became " << after[i];
  return !result.applied.empty();
}

TEST(FoldOverflow, WhereTheGraphIsFinite) {
  int folds = 0;
  for (const char* formula : kFormulas)
    for (const char* operand : kOperands)
      for (const char* number : kConstants) {
        const std::string text = filled(formula, operand, number);
        folds += stays_finite(text, ir::DType::F32, 3.4e38);
        folds += stays_finite(text, ir::DType::F64, 1.79e308);
        folds += stays_finite(text, ir::DType::BF16, 3.37e38);
      }
  EXPECT_GT(folds, 1500);
}

// 80000 overflows f16, 40000 does not.
TEST(FoldOverflow, OfADeclaredDtype) {
  const auto half = [](const std::string& number) {
    return "(x: f16[N]) { h = mul(x, 0.5, compute=f16) ; t = tanh(h, compute=f16) ; "
           "s = add(t, 1, compute=f16) ; m = mul(x, " +
           number + ", compute=f16) ; return mul(m, s, compute=f16) }";
  };
  expect_unchanged(half("40000"));
  expect_graph(half("20000"),
               "(x: f16[N]) { return mul(silu(x, compute=f16), 40000, compute=f16) }");
}

// A small number beside a function that is 0 somewhere keeps a quotient finite.
TEST(FoldOverflow, SmallAddendsStay) {
  for (const ir::DType dtype : {ir::DType::F32, ir::DType::F64}) {
    expect_fold("tanh(x) + 1e-20", unchanged, dtype);
    expect_fold("tanh(x) - 1e-14", unchanged, dtype);
    expect_fold("y / (1e-30 + tanh(0.5 * x))", unchanged, dtype);
    expect_fold("(tanh(x) / 1e-20) * relu6(tanh(x) / 1e-20 + 3) / 6",
                "tanh(x) * relu6(tanh(x) * 1e20 + 3) * 1.6666666666666666e19", dtype);
    expect_fold("2 * sigmoid(2 * x) - 1 + 1e-14", "tanh(x) + 1e-14", dtype);
  }
}

}  // namespace
}  // namespace attacca::fold
