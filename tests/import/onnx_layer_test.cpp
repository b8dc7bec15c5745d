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

// ONNX Runtime's result has 11 elements, the text's has 12.
TEST(OnnxConv, SamePadsOfATransposedOneAreNotNegative) {
  const auto transposed = [](int64_t stride, std::string mode) {
    return Model(22)
        .input("x", {"1", "1", "4"})
        .weight("w", {1, 1, 2}, std::vector<double>(2, 0.5))
        .node("ConvTranspose", {"x", "w"}, {"y"},
              {{"strides", std::vector<int64_t>{stride}}, {"auto_pad", std::move(mode)}})
        .output("y");
  };
  for (const std::string mode : {"SAME_UPPER", "SAME_LOWER"}) {
    EXPECT_EQ(shape_of_result(transposed(2, mode)), "[1, 1, 8]");
    EXPECT_TRUE(
        mentions(to_string(error_of(transposed(3, mode))),
                 "auto_pad=" + mode + "; 11 results along axis 2; fewer than 4 * 3; pads="));
  }
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
  EXPECT_TRUE(mentions(error_of(model).fix, "export the model without them"));
}

Model resized(std::vector<std::string> x, std::vector<double> scales, Attributes attributes = {}) {
  Model model(19);
  model.input("x", std::move(x))
      .weight("scales", {static_cast<int64_t>(scales.size())}, scales)
      .node("Resize", {"x", "", "scales"}, {"y"}, attributes)
      .output("y");
  return model;
}

const std::vector<std::string> kImage{"N", "2", "H", "8"};
const std::string kLinear = "linear", kCubic = "cubic", kAligned = "align_corners",
                  kAsymmetric = "asymmetric";

TEST(OnnxResize, ElementsThatAreRepeatedAsOftenAreBroadcast) {
  auto ops = ops_of(resized(kImage, {1, 1, 2, 3}));
  EXPECT_EQ(ops["gather"], 0);
  EXPECT_EQ(ops["broadcast"], 1);
  EXPECT_EQ(shape_of_result(resized(kImage, {1, 1, 2, 3})), "[N, 2, 2*H, 24]");
  ops = ops_of(resized(kImage, {1, 1, 1, 3}, {{"coordinate_transformation_mode", kAligned}}));
  EXPECT_EQ(ops["gather"], 1);
  EXPECT_EQ(ops["broadcast"], 0);
}

TEST(OnnxResize, LinearIsTwoGathersAnAxis) {
  const std::vector<std::string> x{"N", "2", "5", "8"};
  EXPECT_EQ(ops_of(resized(x, {1, 1, 2, 0.5}, {{"mode", kLinear}}))["gather"], 4);
  EXPECT_EQ(shape_of_result(resized(x, {1, 1, 1.5, 0.7}, {{"mode", kLinear}})), "[N, 2, 7, 5]");
  // Whose places are elements.
  EXPECT_EQ(ops_of(resized(
                x, {1, 1, 1, 0.5},
                {{"mode", kLinear}, {"coordinate_transformation_mode", kAsymmetric}}))["gather"],
            1);
  EXPECT_EQ(read_text(resized(x, {1, 1, 1, 1}, {{"mode", kLinear}})), "x : f32[N, 2, 5, 8]");
}

TEST(OnnxResize, CubicIsFourGathersAnAxis) {
  const std::vector<std::string> x{"N", "2", "5", "8"};
  EXPECT_EQ(ops_of(resized(x, {1, 1, 2, 0.5}, {{"mode", kCubic}}))["gather"], 8);
  EXPECT_EQ(shape_of_result(resized(x, {1, 1, 1.5, 0.7}, {{"mode", kCubic}})), "[N, 2, 7, 5]");
  // Whose places are elements.
  EXPECT_EQ(ops_of(resized(
                x, {1, 1, 1, 0.5},
                {{"mode", kCubic}, {"coordinate_transformation_mode", kAsymmetric}}))["gather"],
            1);
}

TEST(OnnxResize, NoElementsRemain) {
  const std::vector<std::string> x{"1", "2", "1", "4"};
  for (const std::string& mode : {std::string("nearest"), kLinear, kCubic})
    EXPECT_EQ(shape_of_result(resized(x, {1, 1, 0.3, 1}, {{"mode", mode}})), "[1, 2, 0, 4]")
        << mode;
}

TEST(OnnxResize, SizesOfSymbols) {
  Model model(19);
  model.input("x", {"N", "3", "H", "W"})
      .node("Shape", {"x"}, {"from"})
      .ints("factors", {1, 1, 2, 1})
      .node("Mul", {"from", "factors"}, {"to"})
      .node("Resize", {"x", "", "", "to"}, {"y"})
      .output("y");
  EXPECT_EQ(shape_of_result(model), "[N, 3, 2*H, W]");
  EXPECT_EQ(ops_of(model)["broadcast"], 1);
}

TEST(OnnxResize, WhatItCannotRead) {
  const auto refused = [](const Model& model, const char* wanted) {
    const std::string text = to_string(error_of(model));
    EXPECT_TRUE(mentions(text, wanted)) << text;
  };
  refused(resized(kImage, {1, 1, 1.5, 1}), "axis 2 of extent H; scaled by 1.5; --dim");
  refused(resized(kImage, {1, 1, 2, 1}, {{"mode", kLinear}}), "axis 2 of extent H; 2*H; --dim");
  refused(resized(kImage, {1, 1, 2, 1}, {{"coordinate_transformation_mode", kAligned}}),
          "axis 2 of extent H becomes 2*H");
  refused(resized(kImage, {1, 1, 1, 2}, {{"mode", std::string("area")}}), "mode=area");
  refused(resized(kImage, {1, 1, 2, 1}, {{"mode", kCubic}}), "axis 2 of extent H; 2*H; --dim");
  refused(resized(kImage, {1, 1, 1, 2}, {{"nearest_mode", std::string("up")}}), "nearest_mode=up");
  refused(resized(kImage, {1, 1, 1, 2},
                  {{"coordinate_transformation_mode", std::string("tf_crop_and_resize")}}),
          "tf_crop_and_resize; ONNX Runtime");
  refused(resized(kImage, {1, 1, 1, 2}, {{"antialias", int64_t{1}}}), "antialias=1");
  refused(resized(kImage, {1, 1, 1, 2}, {{"keep_aspect_ratio_policy", std::string("wide")}}),
          "keep_aspect_ratio_policy=wide");
  refused(resized(kImage, {2, 2}, {{"axes", std::vector<int64_t>{3, -1}}}),
          "axis 3 is named twice");
  refused(resized(kImage, {1, 1, 1}), "3 scales and 0 sizes for 4 axes");
  refused(resized(kImage, {1, 1, 1, -2}), "axis 3 is scaled by -2");
  refused(resized(kImage, {1, 1, 1, 1e12}), "axis 3; 8; scaled by 1000000000000; at most 65536");
  Model wide(19);
  wide.input("x", kImage)
      .ints("axes", {3})
      .ints("sizes", {int64_t{1} << 62})
      .node("Resize", {"x", "", "", "sizes"}, {"y"}, {{"axes", std::vector<int64_t>{3}}})
      .output("y");
  refused(wide, "axis 3 becomes 4611686018427387904; at most 65536");
  refused(resized({"N", "2", "3", "0"}, {1, 1, 1, 2}), "axis 3 of no elements");
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
                       "T steps; unrolled; length of the sequence; --dim T=64"));
  EXPECT_TRUE(mentions(to_string(error_of(recurrent("LSTM", "2000", 4))),
                       "2000 steps; 1024; ONNX Runtime"));
  EXPECT_TRUE(mentions(error_of(recurrent("GRU", "5", 4)).what, "[5, N, 3]; [1, 16, 4]"));
  EXPECT_TRUE(mentions(error_of(recurrent("RNN", "5", 1, {{"direction", std::string("up")}})).what,
                       "direction=up"));
}

}  // namespace
}  // namespace attacca::import
