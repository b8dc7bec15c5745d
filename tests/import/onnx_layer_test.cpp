// Convolutions and recurrent layers as matrix products: which products, and what is refused.
#include "import/onnx_testing.hpp"
#include "mentions.hpp"

namespace attacca::import {
namespace {

Model convolution(std::vector<std::string> x, std::vector<int64_t> kernel,
                  Attributes attributes = {}) {
  int64_t count = 1;
  for (const int64_t extent : kernel) count *= extent;
  Model model(18);
  model.input("x", std::move(x))
      .weight("w", std::move(kernel), std::vector<double>(static_cast<size_t>(count), 0.5))
      .node("Conv", {"x", "w"}, {"y"}, attributes)
      .output("y");
  return model;
}

// The ops of the graph that its outputs need, each with how often it occurs: "matmul 1, slice 4".
std::map<std::string, int> ops_of(const Model& model) {
  const auto graph = parse_onnx(model.bytes());
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error()));
  std::map<std::string, int> ops;
  if (!graph) return ops;
  const std::vector<bool> live = ir::live(*graph);
  for (uint32_t id = 0; id < graph->size(); ++id)
    if (live[id]) ++ops[std::string(name(graph->nodes()[id].op))];
  return ops;
}

std::string shape_of_result(const Model& model) {
  const auto graph = parse_onnx(model.bytes());
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error()));
  return graph ? ir::to_string(graph->type(graph->outputs()[0].value).shape) : "";
}

TEST(OnnxConv, OneElementIsAProductOfTheInputAsItIs) {
  auto ops = ops_of(convolution({"N", "8", "H", "W"}, {4, 8, 1, 1}));
  EXPECT_EQ(ops["matmul"], 1);
  EXPECT_EQ(ops["slice"] + ops["concat"] + ops["permute"] + ops["transpose"], 0);
  EXPECT_EQ(shape_of_result(convolution({"N", "8", "H", "W"}, {4, 8, 1, 1})), "[N, 4, H, W]");
}

TEST(OnnxConv, PatchesNextToEachOtherAreMovedOnce) {
  const Model model = convolution({"N", "3", "32", "48"}, {16, 3, 16, 16},
                                  {{"strides", std::vector<int64_t>{16, 16}}});
  auto ops = ops_of(model);
  EXPECT_EQ(ops["matmul"], 1);
  EXPECT_EQ(ops["permute"], 1);
  EXPECT_EQ(ops["slice"] + ops["concat"], 0);
  EXPECT_EQ(shape_of_result(model), "[N, 16, 2, 3]");
}

TEST(OnnxConv, OthersHaveASliceForEachElementOfTheKernel) {
  const Model model = convolution(
      {"N", "8", "H", "16"}, {4, 8, 3, 2},
      {{"pads", std::vector<int64_t>{1, 0, 1, 0}}, {"strides", std::vector<int64_t>{2, 1}}});
  auto ops = ops_of(model);
  EXPECT_EQ(ops["matmul"], 1);
  EXPECT_EQ(ops["slice"], 6);
  EXPECT_EQ(shape_of_result(model), "[N, 4, H + -1*floordiv(H, 2), 15]");
}

TEST(OnnxConv, WhatItCannotRead) {
  EXPECT_TRUE(mentions(to_string(error_of(convolution({"N", "8", "H", "W"}, {4, 8, 33, 33}))),
                       "1089 elements; slice; run the file with ONNX Runtime"));
  EXPECT_TRUE(mentions(error_of(convolution({"1", "8", "2", "2"}, {4, 8, 3, 3})).what,
                       "reaches over 3 of 2"));
  EXPECT_TRUE(mentions(error_of(convolution({"1", "8", "4", "4"}, {4, 3, 1, 1})).what,
                       "1 groups; [1, 8, 4, 4]; [4, 3, 1, 1]"));
  EXPECT_TRUE(mentions(
      error_of(convolution({"1", "8", "4", "4"}, {4, 8, 1, 1}, {{"auto_pad", std::string("SOME")}}))
          .what,
      "auto_pad=SOME"));
}

Model pool(const std::string& op, std::vector<std::string> x, Attributes attributes) {
  attributes.emplace("kernel_shape", std::vector<int64_t>{3, 3});
  attributes.emplace("strides", std::vector<int64_t>{2, 2});
  Model model(22);
  model.input("x", std::move(x)).node(op, {"x"}, {"y"}, attributes).output("y");
  return model;
}

TEST(OnnxPool, CeilModeAddsPlacesThatBeginOnAnElement) {
  const std::vector<std::string> x{"N", "2", "8", "7"};
  EXPECT_EQ(shape_of_result(pool("MaxPool", x, {})), "[N, 2, 3, 3]");
  EXPECT_EQ(shape_of_result(pool("MaxPool", x, {{"ceil_mode", int64_t{1}}})), "[N, 2, 4, 3]");
  EXPECT_EQ(shape_of_result(pool("AveragePool", {"N", "2", "H", "7"}, {})),
            "[N, 2, H + -1*floordiv(H, 2) + -1, 3]");
}

TEST(OnnxPool, WhatItCannotRead) {
  const int64_t wide = int64_t{1} << 30;
  Model huge(22);
  huge.input("x", {"N", "1", "H", "W", "D"})
      .node("MaxPool", {"x"}, {"y"}, {{"kernel_shape", std::vector<int64_t>{wide, wide, wide}}})
      .output("y");
  EXPECT_TRUE(mentions(error_of(huge).what, "of which each is a slice"));
  Model model(22);
  model.input("x", {"1", "2", "8", "8"})
      .node("MaxPool", {"x"}, {"y", "at"}, {{"kernel_shape", std::vector<int64_t>{2, 2}}})
      .output("y")
      .output("at");
  EXPECT_TRUE(mentions(error_of(model).what, "Indices (output 1)"));
}

Model recurrent(const std::string& op, const std::string& steps, int64_t gates,
                Attributes attributes = {}) {
  const int64_t rows = gates * 4;
  attributes["hidden_size"] = int64_t{4};
  Model model(18);
  model.input("x", {steps, "N", "3"})
      .weight("w", {1, rows, 3}, std::vector<double>(static_cast<size_t>(rows * 3), 0.5))
      .weight("r", {1, rows, 4}, std::vector<double>(static_cast<size_t>(rows * 4), 0.25))
      .node(op, {"x", "w", "r"}, {"y", "h"}, attributes)
      .output("y")
      .output("h");
  return model;
}

TEST(OnnxRecurrent, TheInputsOfAllStepsAreOneProduct) {
  EXPECT_EQ(ops_of(recurrent("LSTM", "5", 4))["matmul"], 1 + 5);
  EXPECT_EQ(ops_of(recurrent("RNN", "5", 1))["matmul"], 1 + 5);
  EXPECT_EQ(ops_of(recurrent("GRU", "5", 3))["matmul"], 1 + 2 * 5);
  EXPECT_EQ(ops_of(recurrent("GRU", "5", 3, {{"linear_before_reset", int64_t{1}}}))["matmul"],
            1 + 5);
  EXPECT_EQ(shape_of_result(recurrent("GRU", "5", 3)), "[5, 1, N, 4]");
}

TEST(OnnxRecurrent, WhatItCannotRead) {
  EXPECT_TRUE(mentions(to_string(error_of(recurrent("LSTM", "T", 4))),
                       "T steps; unrolled; length of the sequence; --dim"));
  EXPECT_TRUE(mentions(to_string(error_of(recurrent("LSTM", "2000", 4))),
                       "2000 steps; 1024; ONNX Runtime"));
  EXPECT_TRUE(mentions(error_of(recurrent("GRU", "5", 4)).what, "[5, N, 3]; [1, 16, 4]"));
  EXPECT_TRUE(mentions(error_of(recurrent("RNN", "5", 1, {{"direction", std::string("up")}})).what,
                       "direction=up"));
}

}  // namespace
}  // namespace attacca::import
