#include "import/onnx_testing.hpp"

namespace attacca::import {
namespace {

constexpr int kInt32 = onnx::TensorProto::INT32;

// One row of weights 1, 2, ... with f32 scales of 0.5.
struct Weights {
  int64_t k = 64, block = 64, bits = 4;
  std::vector<double> zeros = {};
  int zero_type = kUint8;
  std::vector<double> order = {};
};

std::string product(const Weights& of, Attributes attributes = {}) {
  const int64_t blocks = (of.k + of.block - 1) / of.block, bytes = of.block * of.bits / 8;
  Model model(21);
  model.input("x", {"M", std::to_string(of.k)});
  std::vector<double> codes;
  for (int64_t i = 0; i < blocks * bytes; ++i) codes.push_back(static_cast<double>(i % 256));
  model.weight("w", {1, blocks, bytes}, codes, kUint8);
  model.weight("s", {1, blocks}, std::vector<double>(static_cast<size_t>(blocks), 0.5));
  std::vector<std::string> inputs{"x", "w", "s", "", ""};
  if (!of.zeros.empty()) {
    model.weight("z", {1, static_cast<int64_t>(of.zeros.size())}, of.zeros, of.zero_type);
    inputs[3] = "z";
  }
  if (!of.order.empty()) {
    model.weight("g", {static_cast<int64_t>(of.order.size())}, of.order, kInt32);
    inputs[4] = "g";
  }
  attributes.insert({{"N", int64_t{1}}, {"K", of.k}, {"block_size", of.block}, {"bits", of.bits}});
  return read_text(
      model.node("MatMulNBits", inputs, {"y"}, attributes, "com.microsoft").output("y"));
}

TEST(OnnxMicrosoft, BlockWeightsArePackedWhereTheyCanBe) {
  const auto part = [](const std::string& text, std::string_view wanted) {
    return text.find(wanted) != std::string::npos ? std::string(wanted) : text;
  };
  for (const auto& [of, wanted] : std::vector<std::pair<Weights, std::string_view>>{
           {{.k = 128}, "[1, 128], weights=s8, bits=4, group=64, scales=f32)"},
           {{.k = 70, .bits = 8}, "[1, 70], weights=s8, group=64, scales=f32)"},
           {{.zeros = {3}}, "[1, 64], weights=u8, bits=4, group=64, scales=f32, zeros=true)"}})
    EXPECT_EQ(part(product(of), wanted), wanted);
  // Blocks of 16 or 32, zero points of floats and other orders become plain weights.
  EXPECT_EQ(product({.k = 4, .block = 16}),
            "matmul(x, transpose(constant(f32[1, 4], [-4, -4, -3.5, -4]))) : f32[M, 1]");
  EXPECT_EQ(product({.k = 2, .zeros = {0.5}, .zero_type = kFloat}),
            "matmul(x, transpose(constant(f32[1, 2], [-0.25, -0.25]))) : f32[M, 1]");
  EXPECT_EQ(product({.k = 3, .block = 16, .bits = 8, .order = {0, 0, 0}}),
            "matmul(x, transpose(constant(f32[1, 3], [-64, -63.5, -63]))) : f32[M, 1]");
}

TEST(OnnxMicrosoft, BlockWeightsThatDoNotFitAreRefused) {
  EXPECT_EQ(product({}, {{"N", int64_t{2}}}), "error: B u8[1, 1, 32], wanted u8[2, 1, 32]");
  EXPECT_EQ(product({}, {{"N", int64_t{-1}}}), "error: N=-1, K=64");
  EXPECT_EQ(product({}, {{"K", INT64_MAX}}), "error: N=1, K=9223372036854775807");
  EXPECT_EQ(product({}, {{"K", int64_t{2000}}}), "error: B u8[1, 1, 32], wanted u8[1, 32, 32]");
  EXPECT_EQ(product({}, {{"block_size", int64_t{0}}}), "error: block_size=0");
  EXPECT_EQ(product({}, {{"block_size", int64_t{48}}}), "error: block_size=48");
  EXPECT_EQ(product({}, {{"block_size", INT64_MIN}}), "error: block_size=-9223372036854775808");
  EXPECT_EQ(product({}, {{"bits", int64_t{3}}}), "error: bits=3 is not supported");
  EXPECT_EQ(product({}, {{"weight_prepacked", int64_t{1}}}),
            "error: weight_prepacked is not supported");
  EXPECT_EQ(product({.zeros = {1, 2}}), "error: the zero points are u8[1, 2], wanted u8[1, 1]");
  EXPECT_EQ(product({.zeros = {1}, .zero_type = kInt8}),
            "error: the zero points are s8[1, 1], wanted u8[1, 1]");
  EXPECT_EQ(product({.order = {0, 0}}), "error: g_idx s32[2], wanted s32[64]");
  EXPECT_EQ(product({.k = 1, .block = 16, .order = {1}}), "error: g_idx of 0 is 1, of 1 blocks");
  Model model(21);
  model.input("x", {"M", "64"}).input("w", {"1", "1", "32"}, kUint8).input("s", {"1"});
  model.node("MatMulNBits", {"x", "w", "s"}, {"y"},
             {{"N", int64_t{1}}, {"K", int64_t{64}}, {"block_size", int64_t{64}}}, "com.microsoft");
  EXPECT_EQ(read_text(model.output("y")), "error: B (input 1) must be a constant");
}

std::string with_bias(const std::string& op, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& scale) {
  Model model(21);
  model.input("x", {"M", "3"}, kUint8).input("f", {"M", "3"}).input("w", {"3", "2"}, kInt8);
  model.input("s", {}).input("sw", scale).input("c", {"5", "1", "2"});
  return read_text(model.node(op, inputs, {"y"}, {}, "com.microsoft").output("y"));
}

TEST(OnnxMicrosoft, ScalesAndBiasesKeepTheShape) {
  EXPECT_EQ(with_bias("MatMulIntegerToFloat", {"x", "w", "s", "sw"}, {"2"}),
            "cast(matmul(x, w), f32) * (s * sw) : f32[M, 2]");
  EXPECT_EQ(with_bias("MatMulIntegerToFloat", {"x", "w", "s", "sw"}, {"5", "1", "2"}),
            "error: the scale of B does not broadcast to [M, 2]");
  EXPECT_EQ(with_bias("MatMulIntegerToFloat", {"x", "w", "s", "sw", "", "", "c"}, {"2"}),
            "error: the bias does not broadcast to [M, 2]");
  EXPECT_EQ(with_bias("MatMulIntegerToFloat", {"x", "w"}, {}), "error: input 2 is missing");
  EXPECT_EQ(with_bias("DynamicQuantizeMatMul", {"x", "w", "sw"}, {}), "error: A is u8");
  EXPECT_EQ(with_bias("DynamicQuantizeMatMul", {"f", "f", "sw"}, {}),
            "error: an operand is f32[M, 3], wanted int8 or uint8");
  EXPECT_EQ(with_bias("QGemm", {"x", "s", "", "w", "x", ""}, {}), "error: a scale of u8");
  EXPECT_EQ(with_bias("QGemm", {"x", "s", "", "x", "s", "", ""}, {}),
            "error: matmul needs equal inner dimensions, got 3 and M");
  EXPECT_EQ(with_bias("QGemm", {"x", "s", "", "w", "s", "", "", "s", "f"}, {}),
            "error: numbers are quantised to f32");
}

}  // namespace
}  // namespace attacca::import
