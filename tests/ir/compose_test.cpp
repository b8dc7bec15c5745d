// The compositions against values computed by hand.
#include "ir/text/compose.hpp"

#include <cmath>

#include "ir/interpret/interpreter.hpp"
#include "text_testing.hpp"

namespace attacca::ir {
namespace {

using Numbers = std::vector<double>;

Tensor tensor_of(const Type& type, const Numbers& values) {
  return Tensor::of(type.dtype, *evaluate(type.shape, {}), values);
}

// Output `index` of a text, run in a precision on inputs in order.
Numbers run(std::string_view text, const std::vector<Numbers>& inputs, size_t index = 0,
            Precision precision = Precision::Exact) {
  const Graph graph = parsed(text);
  Bindings bindings;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    const Node& input = graph[graph.inputs()[i]];
    bindings[input.name] = tensor_of(input.type, inputs[i]);
  }
  const auto outputs = interpret(graph, bindings, {.precision = precision});
  if (!outputs) {
    ADD_FAILURE() << to_string(outputs.error());
    return {};
  }
  Numbers values;
  for (int64_t i = 0; i < (*outputs)[index].size(); ++i)
    values.push_back((*outputs)[index].number_at(i));
  return values;
}

void expect_near(const Numbers& got, const Numbers& want, double tolerance = 1e-12) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << "at " << i;
}

TEST(Compose, SoftmaxSumsToOneAlongItsAxis) {
  const double e = std::exp(1.0);
  const Numbers x = {0, 1, 1, 1000, 1001, 1001};
  const double total = 1 + 2 * e;
  expect_near(run("graph g(x: f32[2, 3]) { return softmax(x) }", {x}),
              {1 / total, e / total, e / total, 1 / total, e / total, e / total});
  expect_near(run("graph g(x: f32[2, 3]) { return softmax(x, axis=0) }", {{0, 1, 2, 0, 1, 2}}),
              Numbers(6, 0.5));
}

TEST(Compose, LayernormOfASmallRow) {
  // Mean 2.5, variance 1.25.
  const double s = 1 / std::sqrt(1.25 + 1e-5);
  const Numbers x = {1, 2, 3, 4}, weight = {1, 2, 1, 2}, bias = {0, 0, 1, 1};
  expect_near(run("graph g(x: f64[1, 4]) { return layernorm(x) }", {x}),
              {-1.5 * s, -0.5 * s, 0.5 * s, 1.5 * s});
  expect_near(run("graph g(x: f64[1, 4], w: f64[4], b: f64[4]) { return layernorm(x, w, b) }",
                  {x, weight, bias}),
              {-1.5 * s, -1.0 * s, 0.5 * s + 1, 3 * s + 1});
  const double wide = 1 / std::sqrt(1.25 + 0.75);
  expect_near(
      run("graph g(x: f64[1, 4], b: f64[4]) { return layernorm(x, bias=b, eps=0.75) }", {x, bias}),
      {-1.5 * wide, -0.5 * wide, 0.5 * wide + 1, 1.5 * wide + 1});
}

TEST(Compose, RmsnormOfASmallRow) {
  // Mean square 7.5.
  const double s = 1 / std::sqrt(7.5 + 1e-6);
  const Numbers x = {1, -2, 3, 4}, weight = {1, 2, 1, 0.5};
  expect_near(run("graph g(x: f64[1, 4]) { return rmsnorm(x) }", {x}), {s, -2 * s, 3 * s, 4 * s});
  expect_near(run("graph g(x: f64[1, 4], w: f64[4]) { return rmsnorm(x, w) }", {x, weight}),
              {s, -4 * s, 3 * s, 2 * s});
}

TEST(Compose, NormsOfHalvesAreComputedInF32) {
  // 300 squared overflows f16, and 1/3 needs the one rounding at the end.
  const Numbers x = {300, 300, 300, -300};
  EXPECT_EQ(run("graph g(x: f16[4]) { return rmsnorm(x) }", {x}, 0, Precision::Eager),
            (Numbers{1, 1, 1, -1}));
  EXPECT_EQ(run("graph g(x: f16[3]) { return softmax(x) }", {{7, 7, 7}}, 0, Precision::Eager),
            Numbers(3, round_to(DType::F16, 1.0 / 3)));
}

TEST(Compose, SplitGivesThePartsInOrder) {
  const char* text = "graph g(x: f32[2, 4]) { a, b = split(x, 2)\n return a, b }";
  const Numbers x = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(run(text, {x}, 0), (Numbers{1, 2, 5, 6}));
  EXPECT_EQ(run(text, {x}, 1), (Numbers{3, 4, 7, 8}));
  const char* sizes = "graph g(x: f32[2, 4]) { a, b = split(x, [1, 3], axis=-1)\n return a, b }";
  EXPECT_EQ(run(sizes, {x}, 0), (Numbers{1, 5}));
  EXPECT_EQ(run(sizes, {x}, 1), (Numbers{2, 3, 4, 6, 7, 8}));
  const char* rows = "graph g(x: f32[2, 4]) { a, b = split(x, 2, axis=0)\n return a, b }";
  EXPECT_EQ(run(rows, {x}, 1), (Numbers{5, 6, 7, 8}));
}

TEST(Compose, QuantizeRoundsHalvesToEvenAndSaturates) {
  const Numbers x = {0.25, 0.75, 1.25, -0.25, -100, 100, 0};
  EXPECT_EQ(run("graph g(x: f32[7]) { return quantize(x, 0.5, 3, dtype=u8) }", {x}),
            (Numbers{3, 5, 5, 3, 0, 203, 3}));
  EXPECT_EQ(run("graph g(x: f32[7]) { return quantize(x, 0.5, dtype=s8) }", {x}),
            (Numbers{0, 2, 2, 0, -128, 127, 0}));
  // fp8 rounds in the cast, and 448 is its largest.
  EXPECT_EQ(run("graph g(x: f32[2]) { return quantize(x, 1.0, dtype=f8e4m3) }", {{2.3, 1e4}}, 0,
                Precision::Fp32),
            (Numbers{2.25, 448}));
}

TEST(Compose, DequantizeUndoesQuantize) {
  EXPECT_EQ(run("graph g(q: u8[3], s: f32[3], z: u8[3]) { return dequantize(q, s, z) }",
                {{0, 128, 255}, {0.5, 1, 2}, {128, 128, 128}}),
            (Numbers{-64, 0, 254}));
  EXPECT_EQ(run("graph g(q: s8[2]) { return dequantize(q, 0.25) }", {{-4, 6}}), (Numbers{-1, 1.5}));
}

TEST(Compose, SlicesFollowPython) {
  const Numbers x = {0, 1, 2, 3, 4, 5};
  const auto sliced = [&](const std::string& range) {
    return run("graph g(x: f32[6]) { return x[" + range + "] }", {x});
  };
  EXPECT_EQ(sliced("1:4"), (Numbers{1, 2, 3}));
  EXPECT_EQ(sliced("-2:"), (Numbers{4, 5}));
  EXPECT_EQ(sliced(":-4"), (Numbers{0, 1}));
  EXPECT_EQ(sliced("1::2"), (Numbers{1, 3, 5}));
  EXPECT_EQ(sliced("::-1"), (Numbers{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(sliced("4:1:-2"), (Numbers{4, 2}));
  EXPECT_EQ(sliced("-100:100:4"), (Numbers{0, 4}));
  EXPECT_EQ(sliced("100::-4"), (Numbers{5, 1}));
  EXPECT_EQ(sliced("4:2"), Numbers{});
  EXPECT_EQ(sliced("2:4:-1"), Numbers{});
}

TEST(Compose, ABinaryWithANumberUsesTheOperandsDtype) {
  Graph graph;
  const Value x = *graph.input("x", {DType::BF16, {4}});
  EXPECT_EQ(graph.type(*binary(graph, Op::Mul, x, 0.1)).dtype, DType::BF16);
  EXPECT_EQ(graph.type(*binary(graph, Op::Sub, 1.0, x)).dtype, DType::BF16);
  EXPECT_EQ(*cast(graph, x, DType::BF16), x);
}

TEST(Compose, ErrorsNameTheMend) {
  Graph graph;
  const Value x = *graph.input("x", {DType::F32, {4, Dim::symbol("M")}});
  EXPECT_EQ(softmax(graph, x, 2).error().fix, "use an axis from -2 to 1");
  EXPECT_EQ(split(graph, x, 0, 0).error().what, "split into 0 parts");
  EXPECT_EQ(split(graph, x, 2, 1).error().what, "split of an axis of M into 2 equal parts");
  EXPECT_EQ(split_sizes(graph, x, {1, 2}, 0).error().what, "split sizes [1, 2] of an axis of 4");
  const Value scalar = *graph.input("s", {DType::F32, {}});
  EXPECT_FALSE(rmsnorm(graph, scalar, {}));
  EXPECT_FALSE(slice(graph, x, {{.step = 0}}));
}

}  // namespace
}  // namespace attacca::ir
