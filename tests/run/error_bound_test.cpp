// The bound of --check: right results are within it, wrong ones are not.
#include <cmath>
#include <cstring>
#include <random>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "ir/text/text.hpp"
#include "run/check/compare.hpp"
#include "run/check/random_inputs.hpp"
#include "run/pipeline.hpp"

namespace attacca::run {
namespace {

using ir::DType;
using ir::Graph;
using ir::Tensor;

Graph parsed(const std::string& body) {
  auto graph = ir::parse_graph(body, "<test>");
  EXPECT_TRUE(graph.has_value()) << to_string(graph.error()) << body;
  return *std::move(graph);
}

ir::SymbolValues sizes(const Graph& graph, int64_t size) {
  ir::SymbolValues symbols;
  for (const std::string& symbol : graph.symbols()) symbols[symbol] = size;
  return symbols;
}

// A graph, run both ways on made-up data, and its bound.
struct Case {
  Graph graph;
  ir::Bindings inputs;
  std::vector<Tensor> fused, unfused;
  std::vector<Bounded> bounds;
};

std::vector<Tensor> run_graph(const Graph& graph, const ir::Bindings& inputs, ir::Mode mode,
                              bool fuse) {
  const auto compiled = compile(graph, Target::cpu(mode, fuse), {.cpu = {.threads = 1}});
  EXPECT_TRUE(compiled.has_value()) << to_string(compiled.error());
  auto outputs = compiled->run(inputs);
  EXPECT_TRUE(outputs.has_value()) << to_string(outputs.error());
  return *std::move(outputs);
}

Case make_case(const std::string& body, uint64_t seed, ir::Mode mode, ir::Bindings given = {}) {
  Case made{parsed(body), {}, {}, {}, {}};
  made.inputs = *random_inputs(made.graph, sizes(made.graph, 5), seed, std::move(given));
  made.fused = run_graph(made.graph, made.inputs, mode, true);
  made.unfused = run_graph(made.graph, made.inputs, mode, false);
  auto bounds = error_bounds(made.graph, made.inputs, {.mode = mode});
  EXPECT_TRUE(bounds.has_value()) << to_string(bounds.error());
  made.bounds = *std::move(bounds);
  return made;
}

Verdict verdict(const Case& each, const Tensor& got) {
  return judge(got, each.bounds[0], each.unfused[0]);
}

Tensor copy_of(const Tensor& x) {
  Tensor copy = *Tensor::make(x.dtype(), x.shape());
  std::memcpy(copy.data(), x.data(), static_cast<size_t>(x.bytes()));
  return copy;
}

// Tails of a product and other ops; T is the dtype.
const char* const kTails[] = {
    "acc",
    "acc + b",
    "relu(acc + b)",
    "gelu(acc + b)",
    "gelu_tanh(acc)",
    "0.5 * acc * (1.0 + erf(acc * 0.7071067811865476))",
    "acc / (1 + exp(-acc))",
    "sigmoid(acc) * b",
    "tanh(acc) - b",
    "softmax(acc)",
    "layernorm(acc)",
    "rmsnorm(acc + b)",
    "acc * rsqrt(mean(acc * acc, axes=[1], keepdims=true) + 1e-5)",
    "sum(acc, axes=[0])",
    "mean(acc * acc, axes=[1])",
    "reduce_max(acc, axes=[1]) ",
    "amax(acc, axes=[0])",
    "max(acc, b) - min(acc, b)",
    "where(acc > 0, acc, 0.01 * acc)",
    "square(acc) + sqrt(abs(acc))",
    "exp(acc) / sum(exp(acc), axes=[1], keepdims=true)",
    "silu(acc[:, :4]) * acc[:, 4:]",
    "silu(acc[:, ::2]) * acc[:, 1::2]",
    "concat(acc, acc * 2, axis=1)",
    "transpose(acc) * 0.1",
    "reshape(acc, [1, 40])",
    "pow(abs(acc), 1.5)",
    "clamp(acc, min=-0.5, max=0.5)",
    "log(1 + exp(acc))",
    "hardswish(acc) + hardsigmoid(acc)",
};

std::string product_graph(const std::string& dtype, const std::string& tail) {
  return fmt::format(
      "graph g(x: {0}[5, 24], w: {0}[24, 8], b: {0}[8]) {{\n acc = matmul(x, w)\n return {1}\n}}\n",
      dtype, tail);
}

TEST(ErrorBound, HoldsForRightResultsOfEveryDtypeModeAndSeed) {
  int64_t graphs = 0, elements = 0, unbounded = 0;
  for (const char* dtype : {"f16", "bf16", "f32", "f64"})
    for (const char* tail : kTails)
      for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager})
        for (uint64_t seed = 0; seed < 3; ++seed) {
          const Case each = make_case(product_graph(dtype, tail), seed, mode);
          for (const auto* outputs : {&each.fused, &each.unfused}) {
            const Verdict got = verdict(each, outputs->front());
            ASSERT_TRUE(got.passed()) << dtype << " " << tail << " seed " << seed << " element "
                                      << got.first.value_or(-1);
            unbounded += got.unbounded;
            elements += outputs->front().size();
          }
          ++graphs;
        }
  EXPECT_GE(graphs, 200);
  EXPECT_LE(unbounded * 100, elements) << "a bound must promise something";
}

TEST(ErrorBound, HoldsForAFewElementsUnderManySeeds) {
  const std::string body =
      "graph g(x: f32[1, 1], w: f32[6, 1]) {\n a, b = split(x @ transpose(w), 2, axis=1)\n"
      " return 0.5 * a * (1.0 + erf(a * 0.7071067811865476)) * b\n}\n";
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Case each = make_case(body, seed, ir::Mode::Fp32);
    ASSERT_TRUE(verdict(each, each.fused[0]).passed()) << "seed " << seed;
  }
}

TEST(ErrorBound, HoldsForIntegersAndQuantisedResults) {
  for (uint64_t seed = 0; seed < 20; ++seed)
    for (const char* body :
         {"graph g(x: s8[5, 24], w: s8[24, 8]) { return matmul(x, w) }",
          "graph g(x: s8[5, 24], w: s8[24, 8]) { return cast(matmul(x, w), f16) * 0.25 }",
          "graph g(x: s32[5, 8], y: s32[5, 8]) { return x * y + sum(x, axes=[0]) }",
          "graph g(x: f32[5, 24], w: f32[24, 8]) { return "
          "cast(round(matmul(x, w) / 0.037), s8, saturate=true) }",
          "graph g(x: f32[5, 8], y: f32[5, 8]) { return x > y }"}) {
      const Case each = make_case(body, seed, ir::Mode::Fp32);
      ASSERT_TRUE(verdict(each, each.fused[0]).passed()) << body << " seed " << seed;
    }
}

// Twelve residual blocks of a norm and two products: the bound must hold and must not become
// useless.
TEST(ErrorBound, StaysUsefulInADeepGraph) {
  std::string text = "graph g(x0: f32[8, 64], w: f32[64, 256], v: f32[256, 64]) {\n";
  for (int i = 0; i < 12; ++i)
    text += fmt::format(" x{1} = x{0} + matmul(gelu(matmul(layernorm(x{0}), w)), v)\n", i, i + 1);
  const Case each = make_case(text + " return x12\n}\n", 1, ir::Mode::Fp32);
  EXPECT_TRUE(verdict(each, each.fused[0]).passed());
  for (int64_t i = 0; i < each.fused[0].size(); ++i) ASSERT_LT(each.bounds[0].error(i), 2e-2);
}

// Additions of one value to a growing sum round alike for as long as the sum keeps its exponent.
TEST(ErrorBound, AllowsRoundingsThatPointOneWay) {
  std::string text = "graph g(x: f32[64]) {\n  a0 = x\n  d = x * 2\n";
  for (int i = 0; i < 2000; ++i) text += fmt::format("  a{1} = a{0} + d\n", i, i + 1);
  const Case each = make_case(text + "  return a2000\n}\n", 1, ir::Mode::Fp32);
  EXPECT_TRUE(verdict(each, each.fused[0]).passed());
}

// Errors as a wrong kernel makes them. Each must fail in every dtype.
TEST(ErrorBound, RefusesPlantedErrors) {
  for (const char* dtype : {"f16", "bf16", "f32", "f64"}) {
    const Case each = make_case(product_graph(dtype, "gelu(acc + b)"), 3, ir::Mode::Fp32);
    const Tensor& right = each.fused[0];
    const auto planted = [&](int64_t at, double value) {
      Tensor wrong = copy_of(right);
      wrong.set_number(at, value);
      const Verdict got = verdict(each, wrong);
      EXPECT_EQ(got.outside, 1) << dtype << " " << value;
      EXPECT_EQ(got.first.value_or(-1), at);
    };
    const double want = each.bounds[0].value[7];
    planted(7, want + 3 * each.bounds[0].error(7));
    planted(7, want - 3 * each.bounds[0].error(7));
    planted(7, NAN);
    planted(7, INFINITY);
    planted(7, -INFINITY);
    planted(11, right.number_at(12));  // stale: the neighbour's
  }
}

TEST(ErrorBound, RefusesATransposedResult) {
  const Case each =
      make_case("graph g(x: f32[8, 24], w: f32[24, 8]) { return relu(x @ w) }", 1, ir::Mode::Fp32);
  Tensor wrong = copy_of(each.fused[0]);
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 8; ++j) wrong.set_number(i * 8 + j, each.fused[0].number_at(j * 8 + i));
  EXPECT_GT(verdict(each, wrong).outside, 20);
}

// GELU by the tanh formula differs from GELU by less than 1e-3.
TEST(ErrorBound, RefusesAWrongActivationAtOneInAThousand) {
  const Case right = make_case("graph g(x: f32[32, 384], w: f32[384, 64]) { return gelu(x @ w) }",
                               1, ir::Mode::Fp32);
  const Graph wrong =
      parsed("graph g(x: f32[32, 384], w: f32[384, 64]) { return gelu_tanh(x @ w) }");
  const Tensor got = run_graph(wrong, right.inputs, ir::Mode::Fp32, true)[0];
  EXPECT_LT(compare(got, right.bounds[0]).largest, 1e-3);
  EXPECT_GT(verdict(right, got).outside, 0);
}

// An error that both paths share must fail.
TEST(ErrorBound, RefusesWhatBothPathsHaveWrong) {
  Case each = make_case(product_graph("f32", "tanh(acc)"), 2, ir::Mode::Fp32);
  Tensor wrong = copy_of(each.fused[0]);
  for (int64_t i = 0; i < wrong.size(); ++i) wrong.set_number(i, wrong.number_at(i) * 1.001);
  each.unfused[0] = wrong;
  EXPECT_GT(verdict(each, wrong).outside, wrong.size() / 2);
}

TEST(ErrorBound, DemandsNaNAndInfinityWhereTheyAre) {
  const Tensor x = Tensor::of(DType::F32, {2, 3}, {1, NAN, 2, INFINITY, -INFINITY, 0});
  const Case each =
      make_case("graph g(x: f32[2, 3]) { return exp(x) * 2 }", 0, ir::Mode::Fp32, {{"x", x}});
  EXPECT_TRUE(verdict(each, each.fused[0]).passed());
  for (const auto& [at, value] : {std::pair{1, 0.0}, {3, NAN}, {3, 1e38}, {4, NAN}, {4, 1e-3}}) {
    Tensor wrong = copy_of(each.fused[0]);
    wrong.set_number(at, value);
    EXPECT_EQ(verdict(each, wrong).outside, 1) << at << " " << value;
  }
}

TEST(ErrorBound, LetsANarrowTypeOverflowOnlyThere) {
  const Tensor x = Tensor::of(DType::F16, {4}, {300, 255.875, 200, -300});
  const Tensor y = Tensor::of(DType::F16, {4}, {300, 256, 200, 300});
  const Case each = make_case("graph g(x: f16[4], y: f16[4]) { return x * y }", 0, ir::Mode::Fp32,
                              {{"x", x}, {"y", y}});
  EXPECT_TRUE(std::isinf(each.fused[0].number_at(0)));
  EXPECT_TRUE(verdict(each, each.fused[0]).passed());
  for (const auto& [at, value] : {std::pair{0, 65504.0},
                                  {0, NAN},
                                  {2, static_cast<double>(INFINITY)},
                                  {3, NAN},
                                  {3, static_cast<double>(INFINITY)}}) {
    Tensor wrong = copy_of(each.fused[0]);
    wrong.set_number(at, value);
    EXPECT_EQ(verdict(each, wrong).outside, 1) << at << " " << value;
  }
}

// Where rounding may cross a jump, the result is on one of its sides, nothing else.
TEST(ErrorBound, KnowsBothSidesOfABranch) {
  const Tensor x = Tensor::of(DType::F32, {2}, {0.1F, 0.3F});
  const Case each =
      make_case("graph g(x: f32[2]) { return floor(x * 10) }", 0, ir::Mode::Fp32, {{"x", x}});
  EXPECT_TRUE(verdict(each, each.fused[0]).passed());
  for (const double wrong : {5.0, -2.0, static_cast<double>(NAN)}) {
    Tensor planted = copy_of(each.fused[0]);
    planted.set_number(1, wrong);
    EXPECT_EQ(verdict(each, planted).outside, 1) << wrong;
  }
}

// Unlike roundings, jumps are as likely whole as not at all: those of one condition add up. In f32
// mish(9) is 9.
TEST(ErrorBound, AllowsWholeJumpsThatAddUp) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Case each = make_case(
        "graph g(x: f16[64, 32], w: f16[32, 4], z: f32[1, 4], i: s64[64]) {\n"
        "  t = matmul(x, w * 4)\n  y = where(t > mish(t), t, constant(1, bf16))\n"
        "  return scatter_add(z, i, reduce_max(y, axes=[1], keepdims=true) + y)\n}\n",
        seed, ir::Mode::Fp32, {{"i", Tensor::of(DType::S64, {64}, std::vector<double>(64, 0))}});
    EXPECT_TRUE(verdict(each, each.fused[0]).passed()) << seed;
  }
}

// Far beyond a type's range both ends of an interval may wrap to the least integer, which is where
// they would saturate.
TEST(ErrorBound, PromisesNothingOfIntegersThatWrap) {
  const auto graph = parsed("graph g(x: f32[64], y: f32[64]) { return cast(x * y, s8) }");
  std::vector<double> x, y;
  for (int i = 0; i < 64; ++i) x.push_back(-1e9 - 4096.0 * i), y.push_back(1.1e9 + 4096.0 * i);
  x[0] = -20, y[0] = 3;
  const ir::Bindings inputs = {{"x", Tensor::of(DType::F32, {64}, x)},
                               {"y", Tensor::of(DType::F32, {64}, y)}};
  const Bounded bound = (*error_bounds(graph, inputs))[0];
  EXPECT_TRUE(bound.allows(0, -60) && !bound.allows(0, -62));
  for (int64_t i = 1; i < 64; ++i) EXPECT_FALSE(bound.promises(i)) << i;
}

// What exporters write around attention: masked terms are so low that they may overflow, and a row
// of NaN becomes 0. Neither takes the bound from the other terms.
TEST(ErrorBound, BoundsMaskedAttention) {
  std::vector<double> masked;
  for (int64_t row = 0; row < 5; ++row)
    for (int64_t column = 0; column < 5; ++column)
      masked.push_back(column > row ? -3.4028234663852886e38 : 0);
  const Case each = make_case(
      "graph g(q: f32[5, 8], k: f32[8, 5], v: f32[5, 8], mask: f32[5, 5]) {\n"
      " p = softmax(q @ k + mask)\n return where(p != p, 0.0, p) @ v\n}\n",
      3, ir::Mode::Fp32, {{"mask", Tensor::of(DType::F32, {5, 5}, masked)}});
  EXPECT_TRUE(verdict(each, each.fused[0]).passed());
  for (int64_t i = 0; i < each.fused[0].size(); ++i) {
    ASSERT_TRUE(each.bounds[0].promises(i)) << i;
    Tensor wrong = copy_of(each.fused[0]);
    wrong.set_number(i, wrong.number_at(i) + 1e-3);
    EXPECT_EQ(verdict(each, wrong).outside, 1) << i;
  }
}

// Without a bound, an element must still be finite, infinite or NaN as one of the paths is.
TEST(ErrorBound, ComparesKindsWhereItPromisesNothing) {
  const Tensor x = Tensor::of(DType::F32, {2, 1}, {1, 1e-3F});
  const Tensor w = Tensor::of(DType::F32, {1, 1}, {1});
  const Case each = make_case("graph g(x: f32[2, 1], w: f32[1, 1]) { return 1 / (x @ w - 0.001) }",
                              0, ir::Mode::Fp32, {{"x", x}, {"w", w}});
  EXPECT_FALSE(each.bounds[0].promises(1));
  EXPECT_TRUE(verdict(each, each.fused[0]).passed());
  Tensor wrong = copy_of(each.fused[0]);
  wrong.set_number(1, NAN);
  EXPECT_EQ(verdict(each, wrong).outside, 1);
}

TEST(ErrorBound, PlansShareWhatTheyPack) {
  const Graph graph = parsed("graph g(x: f32[4, 64], w: f32[64, 32]) { return relu(x @ w) }");
  const ir::Bindings inputs = *random_inputs(graph, {}, 1);
  const CpuOptions options{.threads = 1,
                           .weights = {{"w", inputs.at("w")}},
                           .packed = std::make_shared<PackedWeights>()};
  const auto first = compile(graph, Target::cpu(), {.cpu = options});
  const auto second = compile(graph, Target::cpu(ir::Mode::Fp32, false), {.cpu = options});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(options.packed->size(), 1U);
  const auto a = first->run(inputs), b = second->run(inputs);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(compare((*a)[0], (*b)[0]).largest, 0);
}

}  // namespace
}  // namespace attacca::run
