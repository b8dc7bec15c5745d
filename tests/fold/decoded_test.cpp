// Weights that a decode makes of constants become constants; others stay.
#include "fold/quantized/decoded.hpp"

#include "gtest/gtest.h"

#include "ir/interpret/interpreter.hpp"
#include "ir/text/text.hpp"

namespace attacca::fold {
namespace {

using ir::DType;
using ir::Tensor;

ir::Graph graph_of(bool zeros, DType dtype) {
  ir::Graph graph;
  const ir::Value x = *graph.input("x", {DType::F32, {2, 8}});
  std::vector<ir::Value> operands = {
      graph.constant(
          Tensor::of(DType::U8, {3, 4}, {16, 50, 84, 118, 152, 186, 220, 254, 1, 2, 3, 4})),
      graph.constant(Tensor::of(DType::F32, {3, 2}, {0.5, -2, 0.1, 3, 1e-3, 7}))};
  if (zeros)
    operands.push_back(graph.constant(Tensor::of(DType::U8, {3, 2}, {1, 2, 200, 3, 0, 9})));
  const ir::Value w =
      *graph.add(ir::Op::Decode, operands, ir::DecodeAttrs{.zero = zeros ? 0 : 8, .dtype = dtype});
  const ir::Value wide = *graph.add(ir::Op::Cast, {w}, ir::CastAttrs{.dtype = DType::F32});
  const ir::Value turned = *graph.add(ir::Op::Transpose, {wide});
  graph.add_output(*graph.add(ir::Op::MatMul, {x, turned}), "y");
  return graph;
}

TEST(DecodeConstants, GivesWhatTheOpGives) {
  for (const bool zeros : {false, true})
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      const ir::Graph given = graph_of(zeros, dtype), made = decode_constants(given).graph;
      for (const ir::Node& node : made.nodes()) EXPECT_NE(node.op, ir::Op::Decode);
      const ir::Bindings inputs = {
          {"x", Tensor::of(DType::F32, {2, 8}, {1, 0, 0, 2, 0, 1, 3, 0, 1, 1, 1, 1, 1, 1, 1, 1})}};
      const auto want = ir::interpret(given, inputs, {.precision = ir::Precision::Fp32});
      const auto got = ir::interpret(made, inputs, {.precision = ir::Precision::Fp32});
      ASSERT_TRUE(want && got);
      for (int64_t i = 0; i < want->front().size(); ++i)
        EXPECT_EQ(got->front().number_at(i), want->front().number_at(i));
    }
}

TEST(DecodeConstants, LeavesCodesThatAreInputs) {
  const auto graph =
      ir::parse_graph("graph g(c: u8[3, 4], s: f32[3, 2]) { return w = decode(c, s, dtype=f32) }");
  ASSERT_TRUE(graph);
  EXPECT_EQ(ir::print_graph(decode_constants(*graph).graph), ir::print_graph(*graph));
}

}  // namespace
}  // namespace attacca::fold
