#include "import/onnx_testing.hpp"

namespace attacca::import {
namespace {

constexpr int kInt32 = onnx::TensorProto::INT32, kBfloat16 = onnx::TensorProto::BFLOAT16;

// One row of weights 1, 2, ... with f32 scales of 0.5.
struct Weights {
  int64_t k = 64, block = 64, bits = 4;
  std::vector<double> zeros = {};
  int zero_type = kUint8;
  std::vector<double> order = {};
  int type = onnx::TensorProto::FLOAT;
};

std::string product(const Weights& of, Attributes attributes = {}) {
  const int64_t blocks = (of.k + of.block - 1) / of.block, bytes = of.block * of.bits / 8;
  Model model(21);
  model.input("x", {"M", std::to_string(of.k)}, of.type);
  std::vector<double> codes;
  for (int64_t i = 0; i < blocks * bytes; ++i) codes.push_back(static_cast<double>(i % 256));
  model.weight("w", {1, blocks, bytes}, codes, kUint8);
  const double half = of.type == kBfloat16 ? 0x3f00 : 0.5;  // its bits, or itself
  model.weight("s", {1, blocks}, std::vector<double>(static_cast<size_t>(blocks), half), of.type);
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
           {{.k = 128, .type = kBfloat16},
            "[1, 128], weights=s8, bits=4, group=64, scales=bf16, dtype=bf16)"},
           {{.k = 70, .bits = 8, .type = kBfloat16},
            "[1, 70], weights=s8, group=64, scales=bf16, dtype=bf16)"},
           {{.zeros = {3}, .type = kBfloat16},
            "[1, 64], weights=u8, bits=4, group=64, scales=bf16, zeros=true, dtype=bf16)"}})
    EXPECT_EQ(part(product(of), wanted), wanted);
  // Blocks of 16 or 32, zero points of floats, other orders and f32 become plain weights.
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
  EXPECT_EQ(with_bias("QGemm", {"w", "s", "", "w", "s", "", ""}, {}),
            "error: matmul needs equal inner dimensions, got 2 and 3");
  EXPECT_EQ(with_bias("QGemm", {"x", "s", "", "w", "s", "", "", "s", "f"}, {}),
            "error: numbers are quantised to f32");
}

TEST(OnnxMicrosoft, QuantisedTensors) {
  Model model(21);
  model.input("x", {"M", "3"}, kUint8).weight("s", {1}, std::vector{0.5});
  model.weight("z", {}, std::vector{3}, kUint8).weight("t", {3}, std::vector{1, 2, 3});
  const auto made = [&](const std::string& op, const std::vector<std::string>& inputs,
                        const Attributes& attributes = {}) {
    Model each = model;
    return read_text(each.node(op, inputs, {"y"}, attributes, "com.microsoft").output("y"));
  };
  EXPECT_EQ(made("QLinearSigmoid", {"x", "s", "z", "s", "z"}),
            "cast(round(sigmoid((cast(x, f32) - 3) * 0.5) / 0.5) + 3, u8, saturate=true) : "
            "u8[M, 3]");
  EXPECT_EQ(made("QLinearConcat", {"s", "z", "x", "s", "z", "x", "s"}, {{"axis", int64_t{5}}}),
            "error: axis 5 is outside a tensor of rank 2");
  EXPECT_EQ(made("QLinearConcat", {"s", "z"}), "error: the node has no inputs");
  EXPECT_EQ(made("QLinearAdd", {"x", "t", "z", "x", "s", "z", "s", "z"}),
            "error: a scale or zero point of shape [3] (input 1)");
  EXPECT_EQ(made("QLinearMul", {"s", "s", "", "x", "s", "z", "s", "z"}),
            "error: numbers of f32 (input 0)");
  EXPECT_EQ(made("QLinearWhere", {"x", "x", "s", "z"}), "error: input 4 is missing");
}

std::string attention(const std::string& op, const std::vector<std::vector<std::string>>& shapes,
                      Attributes attributes, const std::map<size_t, int>& types = {}) {
  Model model(21);
  std::vector<std::string> inputs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const bool absent = shapes[i] == std::vector<std::string>{"-"};
    inputs.push_back(absent ? "" : fmt::format("x{}", i));
    if (!absent) model.input(inputs.back(), shapes[i], types.count(i) ? types.at(i) : int{kFloat});
  }
  return read_text(model.node(op, inputs, {"y"}, attributes, "com.microsoft").output("y"));
}

const std::vector<std::string> kAbsent{"-"};
constexpr int64_t kOne = 1, kTwo = 2, kThree = 3;

TEST(OnnxMicrosoft, AttentionsRefuseWhatDoesNotFit) {
  const std::vector<std::string> x{"B", "S", "8"}, heads{"B", "2", "S", "4"};
  const auto of_states = [&](const std::vector<std::vector<std::string>>& shapes,
                             const Attributes& attributes) {
    return attention("Attention", shapes, attributes, {{3, kInt32}});
  };
  EXPECT_EQ(of_states({x, {"8", "23"}}, {{"num_heads", kTwo}}),
            "error: 23 features are not queries, keys and values");
  EXPECT_EQ(of_states({x, {"8", "24"}}, {{"num_heads", kThree}}),
            "error: 3 heads of a tensor of shape [B, S, 8]");
  EXPECT_EQ(of_states({x, {"8", "24"}}, {}), "error: 0 heads of a tensor of shape [B, S, 8]");
  EXPECT_EQ(of_states({{"S", "8"}, {"8", "24"}}, {{"num_heads", kTwo}}),
            "error: queries, keys and values of shape [S, 24]");
  EXPECT_EQ(of_states({x, {"8", "24"}, {"24"}, {"7"}}, {{"num_heads", kTwo}}),
            "error: a mask of shape [7] for scores of shape [B, 2, S, S]");
  EXPECT_EQ(of_states({x, {"8", "24"}, {"24"}, {"5", "B", "S"}}, {{"num_heads", kTwo}}),
            "error: add cannot broadcast [B, 2, S, S] with [5, 1, B, S]");
  EXPECT_EQ(of_states({x, {"8", "24"}}, {{"num_heads", kTwo}, {"do_rotary", kOne}}),
            "error: do_rotary is not supported");
  const auto of_heads = [&](const std::vector<std::vector<std::string>>& shapes,
                            const Attributes& attributes = {{"num_heads", kTwo}}) {
    return attention("MultiHeadAttention", shapes, attributes, {{8, kInt32}});
  };
  EXPECT_EQ(of_heads({{"B", "S", "2", "3", "4"}}),
            "error: packed queries, keys and values are not supported");
  EXPECT_EQ(of_heads({x, heads, heads, {"24"}}),
            "error: a bias of keys or values by head is not supported");
  EXPECT_EQ(of_heads({x, x, x, {}}), "error: a tensor of shape [] has no axis 0");
  EXPECT_EQ(of_heads({x, x, x, kAbsent, kAbsent, kAbsent, heads}),
            "error: past_key without past_value, or the reverse");
  EXPECT_EQ(of_heads({x, x, x, kAbsent, kAbsent, kAbsent, kAbsent, kAbsent, {"1"}}),
            "error: input 8, of a shared buffer, is not supported");
}

TEST(OnnxMicrosoft, GroupQueryAttentionRefusesWhatDoesNotFit) {
  const std::vector<std::string> q{"B", "S", "16"}, k{"B", "S", "8"}, past{"B", "1", "P", "8"};
  const auto grouped = [&](const std::vector<std::vector<std::string>>& shapes,
                           Attributes attributes = {}) {
    attributes.insert({{"num_heads", kTwo}, {"kv_num_heads", kOne}});
    return attention("GroupQueryAttention", shapes, attributes, {{5, kInt32}, {6, kInt32}});
  };
  EXPECT_EQ(grouped({q, k, k, past, past, {"B"}, {}}),
            "error: total_sequence_length (input 6, x6) must follow from constants and shapes");
  EXPECT_EQ(grouped({q, k, k}), "error: input 6 is missing");
  EXPECT_EQ(grouped({q, k}), "error: a key without a value, or the reverse");
  EXPECT_EQ(grouped({{"16"}, k, k}), "error: queries of shape [16]");
  EXPECT_EQ(grouped({{"B", "S", "18"}}), "error: 18 features are not of 4 heads");
  EXPECT_EQ(grouped({q, k, k}, {{"kv_num_heads", int64_t{0}}}),
            "error: num_heads=2, kv_num_heads=0");
  EXPECT_EQ(grouped({q, k, k}, {{"causal", int64_t{0}}}), "error: causal=0 is not supported");
  EXPECT_EQ(attention("RotaryEmbedding", {q, {"B", "S"}, {"9", "5"}, {"9", "5"}},
                      {{"num_heads", kTwo}}, {{1, kInt64}}),
            "error: a cache of 5 angles for heads of 8 features");
  EXPECT_EQ(attention("RotaryEmbedding", {q, {"2"}, {"9", "4"}, {"9", "4"}}, {}, {{1, kInt64}}),
            "error: position_ids of shape [2]");
}

TEST(OnnxMicrosoft, MixtureOfExpertsRefusesWhatDoesNotFit) {
  const std::vector<std::string> x{"T", "8"}, scores{"T", "4"}, up{"4", "6", "8"},
      absent = kAbsent, down{"4", "8", "6"}, wide{"4", "12", "8"};
  const auto experts = [&](const std::vector<std::vector<std::string>>& shapes,
                           const Attributes& attributes = {}) {
    return attention("MoE", shapes, attributes, {});
  };
  EXPECT_EQ(experts({{"8"}, scores, up, absent, down}),
            "error: tokens of shape [8] with scores of shape [T, 4]");
  EXPECT_EQ(experts({x, scores, up, absent, down}, {{"k", int64_t{5}}}),
            "error: the 5 best of 4 experts");
  EXPECT_EQ(experts({x, scores, up, absent, down}, {{"use_sparse_mixer", kOne}}),
            "error: use_sparse_mixer is not supported");
  EXPECT_EQ(experts({x, scores, up, absent, down}, {{"activation_type", std::string("relu2")}}),
            "error: activation_type=relu2 is not supported");
  EXPECT_EQ(experts({x, scores, wide, absent, down}, {{"activation_type", std::string("swiglu")}}),
            "error: swiglu_fusion=0 without fc3_experts_weights");
  const auto quantised = [&](const Attributes& attributes) {
    return attention("QMoE", {x, scores, up, {"4", "6"}, absent, down, {"4", "8"}}, attributes);
  };
  EXPECT_EQ(quantised({}),
            "error: weights_prepacked=-1 and 1 leave the weights' layout to the provider");
  EXPECT_EQ(quantised({{"quant_type", std::string("fp4")}}),
            "error: quant_type=fp4 is not supported");
  EXPECT_EQ(quantised({{"weights_prepacked", int64_t{0}}}),
            "error: the experts' weights (input 2) must be a constant");
  EXPECT_EQ(experts({x, scores, {"3", "6", "8"}, absent, down}),
            "error: grouped_matmul needs the ends of 3 groups as s32[3], got s32[4]");
}

}  // namespace
}  // namespace attacca::import
