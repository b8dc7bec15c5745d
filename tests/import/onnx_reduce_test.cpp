#include "import/onnx_testing.hpp"

namespace attacca::import {
namespace {

using Axes = std::vector<int64_t>;

TEST(OnnxReduce, AxesAreAttributesThenInputs) {
  const std::vector<std::string> shape{"M", "4", "2"};
  EXPECT_EQ(read_node(13, "ReduceMean", {shape}, {{"axes", Axes{-1}}}),
            "mean(x, axes=[2], keepdims=true) : f32[M, 4, 1]");
  EXPECT_EQ(read_node(11, "ReduceSum", {shape}, {{"axes", Axes{2, 0}}, {"keepdims", int64_t{0}}}),
            "sum(x, axes=[0, 2]) : f32[4]");
  EXPECT_EQ(read_node(13, "ReduceSum", {shape}), "sum(x, keepdims=true) : f32[1, 1, 1]");
  EXPECT_EQ(read_node(13, "ReduceSum", {shape}, {{"noop_with_empty_axes", int64_t{1}}}),
            "x : f32[M, 4, 2]");
  EXPECT_EQ(read_text(Model(18)
                          .input("x", shape)
                          .ints("a", {1})
                          .node("ReduceMax", {"x", "a"}, {"y"})
                          .output("y")),
            "reduce_max(x, axes=[1], keepdims=true) : f32[M, 1, 2]");
  EXPECT_EQ(read_node(13, "ReduceMean", {shape}, {{"axes", Axes{3}}}),
            "error: axis 3 is outside a tensor of rank 3");
  EXPECT_EQ(read_node(13, "ReduceMean", {shape}, {{"axes", Axes{1, -2}}}),
            "error: axis 1 is named twice");
}

TEST(OnnxReduce, Compositions) {
  const auto over = [](const std::string& op) {
    return read_node(13, op, {{"M", "2"}}, {{"axes", Axes{1}}, {"keepdims", int64_t{0}}});
  };
  EXPECT_EQ(over("ReduceL1"), "sum(abs(x), axes=[1]) : f32[M]");
  EXPECT_EQ(over("ReduceL2"), "sqrt(sum(square(x), axes=[1])) : f32[M]");
  EXPECT_EQ(over("ReduceSumSquare"), "sum(square(x), axes=[1]) : f32[M]");
  EXPECT_EQ(over("ReduceLogSum"), "log(sum(x, axes=[1])) : f32[M]");
  EXPECT_EQ(over("ReduceLogSumExp"),
            "reshape(log(sum(exp(x - where(abs(reduce_max(x, axes=[1], keepdims=true)) < inf, "
            "reduce_max(x, axes=[1], keepdims=true), 0)), axes=[1], keepdims=true)) + "
            "where(abs(reduce_max(x, axes=[1], keepdims=true)) < inf, "
            "reduce_max(x, axes=[1], keepdims=true), 0), [M]) : f32[M]");
  EXPECT_EQ(over("ReduceProd"), "reshape(x[:, :1] * x[:, 1:], [M]) : f32[M]");
}

TEST(OnnxReduce, ProductsOfNothingAndOfMany) {
  const auto along = [](const std::string& extent) {
    return read_node(13, "ReduceProd", {{"2", extent}}, {{"axes", Axes{1}}});
  };
  EXPECT_EQ(along("0"), "broadcast(1, [2, 1]) : f32[2, 1]");
  EXPECT_EQ(along("1"), "x : f32[2, 1]");
  EXPECT_EQ(along("3"), "x[:, :1] * x[:, 1:2] * x[:, 2:] : f32[2, 1]");
  EXPECT_TRUE(along("65").ends_with(" : f32[2, 1]")) << along("65");
  EXPECT_TRUE(along("M").ends_with("[:, :1] : f32[2, 1]"));
}

TEST(OnnxReduce, SmallIntegersReduceInS32) {
  EXPECT_EQ(read_node(13, "ReduceMax", {{"4"}}, {{"keepdims", int64_t{0}}}, kInt8),
            "cast(reduce_max(cast(x, s32)), s8, saturate=true) : s8[]");
}

TEST(OnnxReduce, SoftmaxFlattensUntilOpset12) {
  EXPECT_EQ(read_node(13, "Softmax", {{"B", "S", "4"}}),
            "exp(x - reduce_max(x, axes=[2], keepdims=true)) / sum(exp(x - reduce_max(x, axes=[2], "
            "keepdims=true)), axes=[2], keepdims=true) : f32[B, S, 4]");
  EXPECT_EQ(read_node(13, "Softmax", {{"B", "S", "4"}}, {{"axis", int64_t{1}}}),
            "exp(x - reduce_max(x, axes=[1], keepdims=true)) / sum(exp(x - reduce_max(x, axes=[1], "
            "keepdims=true)), axes=[1], keepdims=true) : f32[B, S, 4]");
  EXPECT_EQ(read_node(11, "Softmax", {{"B", "S", "4"}}),
            "reshape(exp(reshape(x, [B, 4*S]) - reduce_max(reshape(x, [B, 4*S]), axes=[1], "
            "keepdims=true)) / sum(exp(reshape(x, [B, 4*S]) - reduce_max(reshape(x, [B, 4*S]), "
            "axes=[1], keepdims=true)), axes=[1], keepdims=true), [B, S, 4]) : f32[B, S, 4]");
  EXPECT_EQ(read_node(11, "Softmax", {{"B", "4"}}), read_node(13, "Softmax", {{"B", "4"}}));
  EXPECT_EQ(read_node(13, "LogSoftmax", {{"B", "4"}}),
            "x - reduce_max(x, axes=[1], keepdims=true) - log(sum(exp(x - reduce_max(x, axes=[1], "
            "keepdims=true)), axes=[1], keepdims=true)) : f32[B, 4]");
}

TEST(OnnxReduce, Normalisations) {
  EXPECT_EQ(read_node(17, "LayerNormalization", {{"M", "4"}, {"4"}, {"4"}}),
            "(x - mean(x, axes=[1], keepdims=true)) * rsqrt(mean(square(x - mean(x, axes=[1], "
            "keepdims=true)), axes=[1], keepdims=true) + 1e-05) * y + z : f32[M, 4]");
  // ONNX Runtime writes it into models of earlier opsets.
  EXPECT_EQ(read_node(13, "LayerNormalization", {{"M", "4"}, {"4"}, {"4"}}),
            read_node(17, "LayerNormalization", {{"M", "4"}, {"4"}, {"4"}}));
  EXPECT_EQ(read_node(17, "LayerNormalization", {{"M", "4"}, {"4"}}, {{"epsilon", 0.5f}},
                      onnx::TensorProto::FLOAT16),
            "cast((cast(x, f32) - mean(cast(x, f32), axes=[1], keepdims=true)) * "
            "rsqrt(mean(square(cast(x, f32) - mean(cast(x, f32), axes=[1], keepdims=true)), "
            "axes=[1], keepdims=true) + 0.5), f16) * y : f16[M, 4]");
  EXPECT_EQ(read_node(23, "RMSNormalization", {{"M", "4"}, {"4"}}, {{"epsilon", 0.5f}}),
            "x * rsqrt(mean(square(x), axes=[1], keepdims=true) + 0.5) * y : f32[M, 4]");
  EXPECT_EQ(read_text(Model(15)
                          .input("x", {"N", "2", "H", "W"})
                          .input("s", {"2"})
                          .input("b", {"2"})
                          .input("m", {"2"})
                          .input("v", {"2"})
                          .node("BatchNormalization", {"x", "s", "b", "m", "v"}, {"y"},
                                {{"epsilon", 0.5f}})
                          .output("y")),
            "(x - reshape(m, [1, 2, 1, 1])) * rsqrt(reshape(v, [1, 2, 1, 1]) + 0.5) * reshape(s, "
            "[1, 2, 1, 1]) + reshape(b, [1, 2, 1, 1]) : f32[N, 2, H, W]");
}

}  // namespace
}  // namespace attacca::import
