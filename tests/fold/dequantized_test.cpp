// Products of dequantised operands: which become products of bytes, which must not, and that values
// do not change.
#include <cmath>
#include <random>

#include "fmt/format.h"

#include "fold_testing.hpp"
#include "ir/interpret/interpreter.hpp"
#include "ir/text/compose.hpp"

namespace attacca::fold {
namespace {

TEST(Dequantized, ScalesFollowTheProduct) {
  const std::string inputs = "(a: s8[M, 64], b: s8[64, 32], s: f32[M, 1], t: f32[32]) ";
  expect_graph(inputs + "{ return dequantize(a, s) @ dequantize(b, t) }",
               inputs + "{ return cast(a @ b, f32) * s * t }");
  expect_graph(inputs + "{ return dequantize(a, 0.5) @ cast(b, f32) }",
               inputs + "{ return cast(a @ b, f32) * 0.5 }");
  expect_graph(inputs + "{ return matmul(s * cast(a, f32), t * cast(b, f32), out=bf16) }",
               inputs + "{ return cast(cast(a @ b, f32) * s * t, bf16) }");
}

TEST(Dequantized, TransposedWeightsTakeTheirScalesAlong) {
  expect_graph(
      "(a: s8[M, 64], w: s8[32, 64], t: f32[32, 1]) {"
      " return dequantize(a, 0.5) @ transpose(dequantize(w, t)) }",
      "(a: s8[M, 64], w: s8[32, 64], t: f32[32, 1]) {"
      " return cast(a @ transpose(w), f32) * 0.5 * transpose(t) }");
}

TEST(Dequantized, ZeroPointsBecomeCorrections) {
  expect_graph(
      "(a: u8[M, 64], b: s8[64, 32], z: u8[]) {"
      " return dequantize(a, 0.5, z) @ dequantize(b, 0.25) }",
      "(a: u8[M, 64], b: s8[64, 32], z: u8[]) {"
      " return cast(a @ b - cast(z, s32) * sum(cast(b, s32), axes=[0], keepdims=true), f32)"
      " * 0.5 * 0.25 }");
  expect_graph(
      "(a: s8[M, 64], b: u8[64, 32]) {"
      " return dequantize(a, 0.5) @ dequantize(b, 0.25, 128) }",
      "(a: s8[M, 64], b: u8[64, 32]) {"
      " return cast(a @ b - sum(cast(a, s32), axes=[1], keepdims=true) * 128, f32)"
      " * 0.5 * 0.25 }");
  // None where it is 0.
  expect_graph("(a: s8[M, 64], b: s8[64, 32]) { return dequantize(a, 2, 0) @ dequantize(b, 4) }",
               "(a: s8[M, 64], b: s8[64, 32]) { return cast(a @ b, f32) * 2 * 4 }");
}

TEST(Dequantized, SumsOfConstantWeightsAreConstants) {
  ir::Graph graph;
  const ir::Value a = *graph.input("a", {ir::DType::U8, {ir::Dim::symbol("M"), 2}});
  ir::Tensor weights = *ir::Tensor::make(ir::DType::S8, {3, 2});
  for (int64_t i = 0; i < 6; ++i) weights.set_integer(i, i * i - 4);
  const ir::Value b = *graph.add(
      ir::Op::Transpose,
      {*ir::dequantize(graph, graph.constant(weights), graph.literal(0.5, ir::DType::F32))});
  const ir::Value x = *ir::dequantize(graph, a, graph.literal(0.25, ir::DType::F32),
                                      graph.literal(7, ir::DType::U8));
  graph.add_output(*graph.add(ir::Op::MatMul, {x, b}));
  const std::string text = ir::print_graph(fold(graph).graph);
  EXPECT_NE(text.find("constant(s32[1, 3], [-7, 5, 33])"), std::string::npos) << text;
  EXPECT_EQ(text.find("sum("), std::string::npos) << text;
}

TEST(Dequantized, EightBitFloats) {
  const std::string inputs = "(a: f8e4m3[M, 64], b: f8e5m2[64, 32], s: f32[], t: f32[32]) ";
  expect_graph(inputs + "{ return dequantize(a, s) @ dequantize(b, t) }",
               inputs + "{ return a @ b * s * t }");
}

TEST(Dequantized, WhatStays) {
  // Scales along k, of the sum's terms.
  expect_unchanged(
      "(a: s8[M, 64], b: s8[64, 32], s: f32[64]) { return cast(a, f32) * s @ cast(b, f32) }");
  expect_unchanged(
      "(a: s8[M, 64], b: s8[64, 32], t: f32[64, 1]) { return cast(a, f32) @ (cast(b, f32) * t) }");
  expect_unchanged(
      "(a: s8[M, 64], b: s8[64, 32], z: s8[64]) {"
      " return (cast(a, f32) - cast(z, f32)) @ cast(b, f32) }");
  // One side only, sides of different kinds.
  expect_unchanged("(a: f32[M, 64], b: s8[64, 32]) { return a @ dequantize(b, 0.5) }");
  expect_unchanged("(a: s8[M, 64], b: f8e4m3[64, 32]) { return cast(a, f32) @ cast(b, f32) }");
  // A zero point that is no whole number, or of unknown size.
  expect_unchanged("(a: s8[M, 64], b: s8[64, 32]) { return (cast(a, f32) - 0.5) @ cast(b, f32) }");
  expect_unchanged(
      "(a: s8[M, 64], b: s8[64, 32], z: f32[]) { return (cast(a, f32) - z) @ cast(b, f32) }");
  expect_unchanged(
      "(a: s8[M, 64], b: s8[64, 32], z: s32[]) {"
      " return (cast(a, f32) - cast(z, f32)) @ cast(b, f32) }");
  // Sums that s32 may not hold.
  expect_unchanged("(a: s8[M, K], b: s8[K, 32]) { return cast(a, f32) @ cast(b, f32) }");
  expect_unchanged("(a: s8[M, 33026], b: s8[33026, 32]) { return cast(a, f32) @ cast(b, f32) }");
  // Zero points outside of the codes' range, with which differences pass 255.
  expect_unchanged(
      "(a: s8[M, 64], b: s8[64, 32], z: u8[]) {"
      " return (cast(a, f32) - cast(z, f32)) @ cast(b, f32) }");
  expect_unchanged("(a: s8[M, 64], b: s8[64, 32]) { return (cast(a, f32) - 128) @ cast(b, f32) }");
  expect_unchanged("(a: u8[M, 64], b: s8[64, 32]) { return (cast(a, f32) - -1) @ cast(b, f32) }");
  // Factors that the graph rounds.
  expect_unchanged(
      "(a: s8[M, 64], b: s8[64, 32]) {"
      " return cast(dequantize(a, 0.5), bf16) @ cast(dequantize(b, 0.5), bf16) }");
  // A scale that makes more matrices of one.
  expect_unchanged(
      "(a: s8[M, 64], b: s8[64, 32], s: f32[3, 1, 1]) {"
      " return cast(a, f32) * s @ cast(b, f32) }");
}

// Full-range bytes, zero points and row and column scales: no farther from the exact values than
// the graph as written.
void expect_values_stay(const std::string& text, uint64_t seed) {
  const ir::Graph graph = graph_of(text);
  std::mt19937_64 random(seed);
  ir::Bindings inputs;
  for (const ir::Value input : graph.inputs()) {
    const ir::Node& node = graph[input];
    auto tensor = ir::Tensor::make(node.type.dtype, *ir::evaluate(node.type.shape, {}));
    for (int64_t i = 0; i < tensor->size(); ++i)
      if (ir::is_float(node.type.dtype))
        tensor->set_number(i, std::ldexp(1.0 + double(random() % 1000) / 999, -7));
      else
        tensor->set_integer(
            i, static_cast<int64_t>(random() % 256) - (node.type.dtype == ir::DType::S8 ? 128 : 0));
    inputs.emplace(node.name, *std::move(tensor));
  }
  const FoldResult folded = fold(graph);
  ASSERT_EQ(folded.applied.size(), 1u) << text;
  const ir::InterpreterOptions rounded{.precision = ir::Precision::Fp32, .accumulators = {}};
  const auto exact = ir::interpret(graph, inputs);
  const auto written = ir::interpret(graph, inputs, rounded);
  const auto got = ir::interpret(folded.graph, inputs, rounded);
  double scale = 0, written_error = 0, error = 0;
  for (int64_t i = 0; i < (*exact)[0].size(); ++i) {
    const double want = (*exact)[0].number_at(i);
    scale = std::max(scale, std::fabs(want));
    written_error = std::max(written_error, std::fabs((*written)[0].number_at(i) - want));
    error = std::max(error, std::fabs((*got)[0].number_at(i) - want));
  }
  EXPECT_LE(error, written_error + 2 * scale * 0x1p-23) << "seed " << seed << "\n" << text;
}

TEST(Dequantized, ValuesStay) {
  for (const char* weights : {"dequantize(b, t, y)", "transpose(dequantize(transpose(b), u, x))"})
    for (uint64_t seed = 0; seed < 20; ++seed)
      expect_values_stay(
          "graph g(a: u8[5, 300], b: s8[300, 7], s: f32[5, 1], z: u8[5, 1], t: f32[7], y: s8[7],"
          " u: f32[7, 1], x: s8[7, 1]) {\n return dequantize(a, s, z) @ " +
              std::string(weights) + "\n}",
          seed);
}

TEST(Dequantized, ScalesOfBytesFollowAProductOf16Bits) {
  const std::string inputs =
      "(a: bf16[M, 64], b: s8[64, 32], w: u8[32, 64], t: f32[32], u: f32[32, 1], h: bf16[32, 1]) ";
  const std::string product = "cast(matmul(a, cast(b, bf16), out=f32)";
  expect_graph(inputs + "{ return a @ cast(dequantize(b, t), bf16) }",
               inputs + "{ return " + product + " * t, bf16) }");
  expect_graph(inputs + "{ return a @ cast(dequantize(b, t, 0) * 0.5, bf16) }",
               inputs + "{ return " + product + " * t * 0.5, bf16) }");
  const std::string columns = "cast(matmul(a, transpose(cast(w, bf16)), out=f32) * ";
  expect_graph(inputs + "{ return a @ transpose(cast(dequantize(w, u), bf16)) }",
               inputs + "{ return " + columns + "transpose(u), bf16) }");
  expect_graph(inputs + "{ return a @ transpose(cast(w, bf16) * h) }",
               inputs + "{ return " + columns + "cast(transpose(h), f32), bf16) }");
}

TEST(Dequantized, ZeroPointsOfBytesFollowAProductOf16Bits) {
  const std::string inputs =
      "(a: bf16[M, 64], b: s8[64, 32], w: u8[32, 64], t: f32[32], z: s8[32], y: s8[32, 1], "
      "h: bf16[32, 1]) ";
  const std::string sums = "sum(cast(a, f32), axes=[1], keepdims=true)";
  expect_graph(inputs + "{ return a @ cast(dequantize(b, t, z), bf16) }",
               inputs + "{ return cast((matmul(a, cast(b, bf16), out=f32) - " + sums +
                   " * cast(z, f32)) * t, bf16) }");
  // In 16 bits, with reshapes that change nothing, as torchao writes it.
  expect_graph(inputs +
                   "{ return a @ transpose(reshape((cast(w, bf16) - cast(y, bf16)) * h, "
                   "[32, 64])) }",
               inputs + "{ return cast((matmul(a, transpose(cast(w, bf16)), out=f32) - " + sums +
                   " * cast(transpose(y), f32)) * cast(transpose(h), f32), bf16) }");
  expect_graph(inputs + "{ return a @ transpose(cast(w, bf16) - 128) }",
               inputs + "{ return cast(matmul(a, transpose(cast(w, bf16)), out=f32) - " + sums +
                   " * 128, bf16) }");
}

TEST(Dequantized, OtherProductsOf16BitsStay) {
  const std::string inputs =
      "(a: bf16[M, 64], b: s8[64, 32], t: f32[32], k: f32[64, 1], z: s8[64, 1], "
      "f: f8e4m3[64, 32]) ";
  for (const char* weights : {"cast(b, bf16)",                    // nothing to move
                              "cast(dequantize(b, k), bf16)",     // along k
                              "cast(dequantize(b, t, z), bf16)",  // zero points along k
                              "(cast(b, bf16) - 0.5)",            // no zero point of bytes
                              "cast(dequantize(f, t), bf16)"})    // no bytes
    expect_unchanged(inputs + "{ return a @ " + weights + " }");
}

TEST(Dequantized, ValuesOf16BitsStay) {
  for (const char* half : {"bf16", "f16"})
    for (const char* weights :
         {"cast(dequantize(b, t), {})", "transpose(cast(transpose(b), {}) * u)",
          "cast(dequantize(b, t, z), {})", "transpose(cast(transpose(b), {}) - 9)"})
      for (uint64_t seed = 0; seed < 10; ++seed)
        expect_values_stay(
            fmt::format("graph g(a: {0}[5, 300], b: s8[300, 7], t: f32[7], u: {0}[7, 1], "
                        "z: s8[7]) {{\n"
                        " return matmul(a, {1}, out=f32)\n}}",
                        half, fmt::format(fmt::runtime(weights), half)),
            seed);
}

}  // namespace
}  // namespace attacca::fold
