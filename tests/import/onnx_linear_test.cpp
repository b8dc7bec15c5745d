#include "import/onnx_testing.hpp"
#include "mentions.hpp"

namespace attacca::import {
namespace {

TEST(OnnxLinear, MatMulFollowsNumpyForVectors) {
  const auto product = [](const std::vector<std::string>& a, const std::vector<std::string>& b) {
    return read_node(13, "MatMul", {a, b});
  };
  EXPECT_EQ(product({"M", "8"}, {"8", "4"}), "matmul(x, y) : f32[M, 4]");
  EXPECT_EQ(product({"B", "S", "8"}, {"8", "4"}), "matmul(x, y) : f32[B, S, 4]");
  EXPECT_EQ(product({"8"}, {"8", "4"}), "reshape(matmul(reshape(x, [1, 8]), y), [4]) : f32[4]");
  EXPECT_EQ(product({"M", "8"}, {"8"}), "reshape(matmul(x, reshape(y, [8, 1])), [M]) : f32[M]");
  EXPECT_EQ(product({"8"}, {"8"}),
            "reshape(matmul(reshape(x, [1, 8]), reshape(y, [8, 1])), []) : f32[]");
  EXPECT_EQ(product({"B", "M", "8"}, {"8"}),
            "reshape(matmul(x, reshape(y, [8, 1])), [B, M]) : f32[B, M]");
  EXPECT_EQ(product({"M", "8"}, {"7", "4"}),
            "error: matmul needs equal inner dimensions, got 8 and 7");
  EXPECT_EQ(product({}, {"8"}), "error: a matrix product of a scalar");
}

TEST(OnnxLinear, Gemm) {
  const auto gemm = [](const std::vector<std::vector<std::string>>& shapes,
                       const Attributes& attributes) {
    return read_node(13, "Gemm", shapes, attributes);
  };
  const int64_t yes = 1;
  EXPECT_EQ(gemm({{"M", "8"}, {"8", "4"}, {"4"}}, {}), "matmul(x, y) + z : f32[M, 4]");
  EXPECT_EQ(gemm({{"M", "8"}, {"4", "8"}}, {{"transB", yes}}),
            "matmul(x, transpose(y)) : f32[M, 4]");
  EXPECT_EQ(gemm({{"8", "M"}, {"8", "4"}, {"M", "1"}},
                 {{"transA", yes}, {"alpha", 0.5f}, {"beta", 2.0f}}),
            "matmul(transpose(x), y) * 0.5 + z * 2 : f32[M, 4]");
  EXPECT_EQ(gemm({{"M", "8"}, {"8", "4"}, {"2", "M", "4"}}, {}),
            "error: C does not broadcast to [M, 4]");
  EXPECT_EQ(gemm({{"2", "M", "8"}, {"8", "4"}}, {}),
            "error: Gemm multiplies matrices, got [2, M, 4]");
}

// int8 x: [M, 8] by uint8 or int8 y: [8, 2], with zero points where given.
std::string integer_product(const std::vector<double>& za, const std::vector<double>& zb) {
  Model model(13);
  model.input("x", {"M", "3"}, kInt8).weight("w", {3, 2}, std::vector{1, 2, 3, 4, 5, 6}, kInt8);
  std::vector<std::string> inputs{"x", "w", "", ""};
  const auto point = [&](size_t at, const std::string& name, const std::vector<double>& values) {
    if (values.empty()) return;
    model.weight(name,
                 values.size() == 1 ? std::vector<int64_t>{}
                                    : std::vector<int64_t>{static_cast<int64_t>(values.size())},
                 values, kInt8);
    inputs[at] = name;
  };
  point(2, "za", za);
  point(3, "zb", zb);
  return read_text(model.node("MatMulInteger", inputs, {"y"}).output("y"));
}

TEST(OnnxLinear, ZeroPointsBecomeCorrections) {
  EXPECT_EQ(integer_product({}, {}),
            "matmul(x, constant(s8[3, 2], [1, 2, 3, 4, 5, 6])) : s32[M, 2]");
  EXPECT_EQ(integer_product({0}, {0, 0}),
            "matmul(x, constant(s8[3, 2], [1, 2, 3, 4, 5, 6])) : s32[M, 2]");
  EXPECT_EQ(integer_product({5}, {}),
            "matmul(x, constant(s8[3, 2], [1, 2, 3, 4, 5, 6])) - 5 * constant(s32[1, 2], [9, 12]) "
            ": s32[M, 2]");
  EXPECT_EQ(integer_product({}, {1, 2}),
            "matmul(x, constant(s8[3, 2], [1, 2, 3, 4, 5, 6])) - sum(cast(x, s32), axes=[1], "
            "keepdims=true) * constant(s32[2], [1, 2]) : s32[M, 2]");
  EXPECT_EQ(integer_product({5}, {1}),
            "matmul(x, constant(s8[3, 2], [1, 2, 3, 4, 5, 6])) - sum(cast(x, s32), axes=[1], "
            "keepdims=true) * 1 - 5 * constant(s32[1, 2], [6, 9]) : s32[M, 2]");
}

std::string quantised(int64_t opset, std::vector<int64_t> scale_shape, int zero_type,
                      const Attributes& attributes = {}) {
  Model model(opset);
  const auto size = static_cast<size_t>(scale_shape.empty() ? 1 : scale_shape[0]);
  model.input("x", {"M", "2"}).weight("s", scale_shape, std::vector<double>(size, 0.5));
  std::vector<std::string> inputs{"x", "s"};
  if (zero_type != 0) {
    model.weight("z", scale_shape, std::vector<double>(size, 3), zero_type);
    inputs.push_back("z");
  }
  return read_text(model.node("QuantizeLinear", inputs, {"y"}, attributes).output("y"));
}

TEST(OnnxLinear, QuantizeLinear) {
  EXPECT_EQ(quantised(10, {}, 0), "cast(round(x / 0.5), u8, saturate=true) : u8[M, 2]");
  EXPECT_EQ(quantised(10, {}, kInt8), "cast(round(x / 0.5) + 3, s8, saturate=true) : s8[M, 2]");
  EXPECT_EQ(quantised(13, {2}, kUint8),
            "cast(round(x / constant(f32[1, 2], [0.5, 0.5])) + constant(f32[1, 2], [3, 3]), u8, "
            "saturate=true) : u8[M, 2]");
  EXPECT_EQ(quantised(13, {2}, kUint8, {{"axis", int64_t{0}}}),
            "error: div cannot broadcast [M, 2] with [2, 1]");
  EXPECT_EQ(quantised(19, {}, onnx::TensorProto::DataType(17)),
            "cast(x / 0.5, f8e4m3, saturate=true) : f8e4m3[M, 2]");
  EXPECT_EQ(quantised(21, {}, 0, {{"output_dtype", int64_t{3}}}),
            "cast(round(x / 0.5), s8, saturate=true) : s8[M, 2]");
  EXPECT_EQ(quantised(21, {2}, kInt8, {{"block_size", int64_t{32}}}),
            "error: scale_blocks of f32[M, 2] by f32[2] in blocks of [1, 32]");
  EXPECT_EQ(read_text(Model(21)
                          .input("x", {"2", "6"})
                          .input("s", {"2", "2"})
                          .input("z", {"2", "2"}, kInt8)
                          .node("QuantizeLinear", {"x", "s", "z"}, {"y"},
                                {{"axis", int64_t{1}}, {"block_size", int64_t{4}}})
                          .output("y")),
            "cast(round(x / scale_blocks(broadcast(1, [2, 6]), s, [1, 4])) + "
            "scale_blocks(broadcast(1, [2, 6]), cast(z, f32), [1, 4]), s8, saturate=true) : "
            "s8[2, 6]");
}

TEST(OnnxLinear, DequantizeLinear) {
  const auto real = [](const std::vector<double>& scale, double zero) {
    const auto size = static_cast<int64_t>(scale.size());
    return read_text(Model(13)
                         .input("x", {"2", "N"}, kInt8)
                         .weight("s", {size}, scale)
                         .weight("z", {size}, std::vector<double>(scale.size(), zero), kInt8)
                         .node("DequantizeLinear", {"x", "s", "z"}, {"y"}, {{"axis", int64_t{0}}})
                         .output("y"));
  };
  EXPECT_EQ(real({0.5}, 0), "cast(x, f32) * 0.5 : f32[2, N]");
  EXPECT_EQ(real({0.5, 0.25}, 3),
            "(cast(x, f32) - constant(f32[2, 1], [3, 3])) * constant(f32[2, 1], [0.5, 0.25]) : "
            "f32[2, N]");
}

TEST(OnnxLinear, DequantizeLinearOfBlocks) {
  EXPECT_EQ(read_text(Model(21)
                          .input("x", {"M", "6"}, kInt8)
                          .input("s", {"M", "2"})
                          .node("DequantizeLinear", {"x", "s"}, {"y"},
                                {{"axis", int64_t{-1}}, {"block_size", int64_t{4}}})
                          .output("y")),
            "scale_blocks(x, s, [1, 4]) : f32[M, 6]");
  EXPECT_EQ(read_text(Model(21)
                          .input("x", {"2", "6"}, kInt8)
                          .input("s", {"2", "2"})
                          .weight("z", {2, 2}, std::vector{1, 2, 3, 4}, kInt8)
                          .node("DequantizeLinear", {"x", "s", "z"}, {"y"},
                                {{"axis", int64_t{1}}, {"block_size", int64_t{4}}})
                          .output("y")),
            "scale_blocks(cast(x, f32) - scale_blocks(broadcast(1, [2, 6]), "
            "constant(f32[2, 2], [1, 2, 3, 4]), [1, 4]), s, [1, 4]) : f32[2, 6]");
}

TEST(OnnxLinear, QLinearMatMul) {
  EXPECT_EQ(
      read_text(Model(13)
                    .input("x", {"M", "3"}, kUint8)
                    .weight("sx", {}, std::vector{0.5})
                    .weight("zx", {}, std::vector{0}, kUint8)
                    .weight("w", {3, 1}, std::vector{1, 2, 3}, kInt8)
                    .weight("sw", {1}, std::vector{0.25})
                    .weight("zw", {1}, std::vector{0}, kInt8)
                    .weight("sy", {}, std::vector{2.0})
                    .weight("zy", {}, std::vector{7}, kUint8)
                    .node("QLinearMatMul", {"x", "sx", "zx", "w", "sw", "zw", "sy", "zy"}, {"y"})
                    .output("y")),
      "cast(round(cast(matmul(x, constant(s8[3, 1], [1, 2, 3])), f32) * 0.0625) + 7, u8, "
      "saturate=true) : u8[M, 1]");
}

// 16-bit scales do not narrow the accumulators.
TEST(OnnxLinear, QLinearMatMulOfHalfScales) {
  Model model(21);
  model.input("x", {"M", "3"}, kUint8).weight("w", {3, 1}, std::vector{1, 2, 3}, kInt8);
  for (const std::string name : {"x", "w", "y"}) {
    model.weight("s" + name, {}, std::vector{0x3f00}, onnx::TensorProto::BFLOAT16);
    model.weight("z" + name, {}, std::vector{0}, name == "w" ? kInt8 : kUint8);
  }
  EXPECT_EQ(
      read_text(model.node("QLinearMatMul", {"x", "sx", "zx", "w", "sw", "zw", "sy", "zy"}, {"y"})
                    .output("y")),
      "cast(round(cast(matmul(x, constant(s8[3, 1], [1, 2, 3])), f32) * 0.5), u8, saturate=true) : "
      "u8[M, 1]");
}

std::string of_types(const std::string& op, int x, int scale, int zero,
                     const Attributes& attributes = {}) {
  Model model(21);
  model.input("x", {"M", "2"}, x).input("s", {}, scale).input("z", {}, zero);
  return read_text(model.node(op, {"x", "s", "z"}, {"y"}, attributes).output("y"));
}

constexpr int kInt16 = onnx::TensorProto::INT16, kUint16 = onnx::TensorProto::UINT16;

// x quantised with a zero point of 3.
Model sixteen_bits(int type, const Attributes& attributes = {}) {
  Model model(21);
  model.input("x", {"M", "2"})
      .weight("s", {}, std::vector<double>{0.5})
      .weight("z", {}, std::vector<double>{3}, type)
      .node("QuantizeLinear", {"x", "s", "z"}, {"q"}, attributes);
  return model;
}

TEST(OnnxLinear, SixteenBitsAreF32BetweenQuantizeAndDequantize) {
  const auto through = [](int type) {
    return read_text(
        sixteen_bits(type).node("DequantizeLinear", {"q", "s", "z"}, {"y"}).output("y"));
  };
  EXPECT_EQ(through(kUint16),
            "(where(round(x / 0.5) + 3 == round(x / 0.5) + 3, clamp(round(x / 0.5) + 3, min=0, "
            "max=65535), 0) - 3) * 0.5 : f32[M, 2]");
  EXPECT_TRUE(mentions(through(kInt16), "min=-32768, max=32767; -32768) - 3) * 0.5 : f32[M, 2]"));
  // The bits of a weight are read by its type.
  for (const auto& [type, wanted] : {std::pair(kUint16, "65535"), std::pair(kInt16, "-1")}) {
    Model model(21);
    model.weight("w", {2}, std::vector<double>{7, 65535}, type)
        .weight("s", {}, std::vector<double>{1})
        .node("DequantizeLinear", {"w", "s"}, {"y"})
        .output("y");
    EXPECT_TRUE(mentions(read_text(model), fmt::format("[7, {}]", wanted)));
  }
}

TEST(OnnxLinear, SixteenBitsElsewhereAreRefused) {
  const auto refused = [](const Model& model, const char* wanted) {
    const std::string text = to_string(error_of(model));
    EXPECT_TRUE(mentions(text, wanted)) << text;
  };
  refused(sixteen_bits(kUint16).output("q"), "16-bit integers; output q; dequantise");
  refused(sixteen_bits(kInt16).node("Relu", {"q"}, {"y"}).output("y"),
          "node y (Relu); input q is of 16-bit integers; dequantise it first");
  refused(sixteen_bits(kInt16)
              .weight("z8", {}, std::vector<double>{3}, kInt8)
              .node("DequantizeLinear", {"q", "s", "z8"}, {"y"})
              .output("y"),
          "type of the zero point");
  refused(sixteen_bits(kInt16, {{"output_dtype", int64_t{kInt8}}}).output("q"), "output_dtype");
  refused(sixteen_bits(kInt16, {{"block_size", int64_t{2}}}).output("q"), "blocks; 16 bits");
  refused(sixteen_bits(kInt16).node("QuantizeLinear", {"q", "s", "z"}, {"y"}).output("y"),
          "x is of 16-bit integers");
  refused(Model(21).input("q", {"M"}, kInt16).node("Relu", {"q"}, {"y"}).output("y"),
          "ONNX element type int16 is not supported");
}

TEST(OnnxLinear, TypesThatDoNotBelongTogetherAreRefused) {
  EXPECT_EQ(of_types("QuantizeLinear", kFloat, kFloat, kFloat),
            "error: numbers are quantised to f32");
  EXPECT_EQ(of_types("QuantizeLinear", onnx::TensorProto::INT32, onnx::TensorProto::INT32, kInt8),
            "error: a scale of s32");
  EXPECT_EQ(of_types("QuantizeLinear", kFloat, kFloat, kUint8, {{"output_dtype", int64_t{3}}}),
            "error: a zero point of u8 for numbers of s8");
  EXPECT_EQ(of_types("DequantizeLinear", kFloat, kFloat, kFloat),
            "error: numbers of f32 are not quantised");
  EXPECT_EQ(of_types("DequantizeLinear", kInt8, kInt8, kInt8), "error: a scale of s8");
  EXPECT_EQ(of_types("DequantizeLinear", kInt8, kFloat, kUint8),
            "error: a zero point of u8 for numbers of s8");
  for (const size_t at : {2, 3}) {
    Model model(13);
    model.input("x", {"M", "2"}, kUint8).input("w", {"2", "N"}, kInt8).input("z", {}, kFloat);
    std::vector<std::string> inputs{"x", "w", "", ""};
    inputs[at] = "z";
    EXPECT_EQ(read_text(model.node("MatMulInteger", inputs, {"y"}).output("y")),
              fmt::format("error: a zero point of f32 for numbers of {}", at == 2 ? "u8" : "s8"));
  }
}

}  // namespace
}  // namespace attacca::import
