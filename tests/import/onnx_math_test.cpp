#include "import/onnx_testing.hpp"

namespace attacca::import {
namespace {

// One node over x: f32[M, 4] (and y of the same type).
std::string unary(int64_t opset, const std::string& op, const Attributes& attributes = {}) {
  return read_node(opset, op, {{"M", "4"}}, attributes);
}
std::string binary(int64_t opset, const std::string& op) {
  return read_node(opset, op, {{"M", "4"}, {"4"}});
}

TEST(OnnxMath, DirectOps) {
  EXPECT_EQ(unary(14, "Relu"), "relu(x) : f32[M, 4]");
  EXPECT_EQ(unary(1, "Exp"), "exp(x) : f32[M, 4]");
  EXPECT_EQ(binary(7, "Add"), "x + y : f32[M, 4]");
  EXPECT_EQ(binary(13, "Less"), "x < y : bool[M, 4]");
  EXPECT_EQ(read_node(16, "Where", {{"4"}, {"4"}, {"4"}}),
            "error: where needs a bool condition, got f32[4]");
}

TEST(OnnxMath, OpsExistInTheirOpsetsOnly) {
  EXPECT_EQ(unary(12, "HardSwish"),
            "error: the model uses ops that are not supported:\n  HardSwish in opset 12: out");
  EXPECT_EQ(unary(17, "Mish"),
            "error: the model uses ops that are not supported:\n  Mish in opset 17: out");
  EXPECT_EQ(unary(24, "Relu"), "relu(x) : f32[M, 4]");
  EXPECT_EQ(unary(24, "Swish", {{"alpha", 0.5f}}), "silu(x, alpha=0.5) : f32[M, 4]");
  EXPECT_EQ(unary(25, "Relu"), "error: opset 25 is not supported");
}

TEST(OnnxMath, DefaultsDifferFromOurs) {
  EXPECT_EQ(unary(6, "HardSigmoid"), "hardsigmoid(x, alpha=0.2) : f32[M, 4]");
  EXPECT_EQ(unary(16, "LeakyRelu"), "leaky_relu(x) : f32[M, 4]");
  EXPECT_EQ(unary(16, "LeakyRelu", {{"alpha", 0.25f}}), "leaky_relu(x, alpha=0.25) : f32[M, 4]");
  EXPECT_EQ(unary(6, "Elu", {{"alpha", 2.0f}}), "elu(x, alpha=2) : f32[M, 4]");
  EXPECT_EQ(unary(6, "Selu"), "selu(x) : f32[M, 4]");
  EXPECT_EQ(unary(6, "Selu", {{"alpha", 2.0f}, {"gamma", 3.0f}}),
            "elu(x, alpha=2) * 3 : f32[M, 4]");
  EXPECT_EQ(unary(1, "Selu"), "elu(x, alpha=1.6732) * 1.0507 : f32[M, 4]");
}

TEST(OnnxMath, Compositions) {
  EXPECT_EQ(unary(12, "Celu", {{"alpha", 2.0f}}),
            "where(x < 0, 2 * expm1(min(x, 0) / 2), x) : f32[M, 4]");
  EXPECT_EQ(unary(10, "ThresholdedRelu"), "where(x > 1, x, 0) : f32[M, 4]");
  EXPECT_EQ(unary(1, "Softsign"), "x / (abs(x) + 1) : f32[M, 4]");
  EXPECT_EQ(unary(9, "Shrink"), "where(x < -0.5, x + 0, where(x > 0.5, x - 0, 0)) : f32[M, 4]");
  EXPECT_EQ(binary(16, "PRelu"), "where(x < 0, y * x, x) : f32[M, 4]");
}

TEST(OnnxMath, Gelu) {
  EXPECT_EQ(unary(20, "Gelu"), "gelu(x) : f32[M, 4]");
  EXPECT_EQ(unary(20, "Gelu", {{"approximate", "tanh"}}), "gelu_tanh(x) : f32[M, 4]");
  EXPECT_EQ(unary(20, "Gelu", {{"approximate", "sigmoid"}}),
            "error: approximate=sigmoid is not supported");
}

TEST(OnnxMath, ClipTakesItsBoundsFromAttributesThenInputs) {
  EXPECT_EQ(unary(6, "Clip", {{"min", -1.0f}, {"max", 2.0f}}),
            "clamp(x, min=-1, max=2) : f32[M, 4]");
  EXPECT_EQ(unary(6, "Clip", {{"max", 2.0f}}),
            "clamp(x, min=-3.4028234663852886e+38, max=2) : f32[M, 4]");
  EXPECT_EQ(unary(1, "Clip", {{"max", 2.0f}}), "clamp(x, max=2) : f32[M, 4]");
  const auto clip = [](const std::string& low, const std::string& high) {
    return read_text(Model(13)
                         .input("x", {"M"})
                         .input("t", {})
                         .weight("seven", {}, std::vector{7.0})
                         .node("Clip", {"x", low, high}, {"y"})
                         .output("y"));
  };
  // A bound left out is the end of the finite range.
  EXPECT_EQ(clip("", "seven"), "clamp(x, min=-3.4028234663852886e+38, max=7) : f32[M]");
  EXPECT_EQ(clip("t", "seven"), "clamp(max(x, t), max=7) : f32[M]");
  EXPECT_EQ(clip("", "t"), "min(clamp(x, min=-3.4028234663852886e+38), t) : f32[M]");
  EXPECT_EQ(clip("", ""),
            "clamp(x, min=-3.4028234663852886e+38, max=3.4028234663852886e+38) : f32[M]");
}

TEST(OnnxMath, BroadcastingBeforeOpset7IsAsked) {
  const auto add = [](const Attributes& attributes) {
    return read_node(6, "Add", {{"2", "3", "4"}, {"3"}}, attributes);
  };
  EXPECT_EQ(add({{"broadcast", int64_t{1}}, {"axis", int64_t{1}}}),
            "x + reshape(y, [3, 1]) : f32[2, 3, 4]");
  EXPECT_EQ(add({{"broadcast", int64_t{1}}, {"axis", int64_t{2}}}),
            "error: add cannot broadcast [2, 3, 4] with [3]");
  EXPECT_EQ(add({}), "error: shapes differ and broadcast is not set");
}

TEST(OnnxMath, VariadicOps) {
  const std::vector<std::vector<std::string>> three{{"4"}, {"4"}, {"4"}};
  EXPECT_EQ(read_node(13, "Max", three), "max(max(x, y), z) : f32[4]");
  EXPECT_EQ(read_node(13, "Sum", three), "x + y + z : f32[4]");
  EXPECT_EQ(read_node(13, "Mean", three), "(x + y + z) / 3 : f32[4]");
  EXPECT_EQ(read_node(13, "Min", {{"4"}}), "x : f32[4]");
}

TEST(OnnxMath, PowKeepsTheBasesType) {
  const auto power = [](int type, double exponent) {
    return read_text(Model(15)
                         .input("x", {"4"}, type)
                         .weight("e", {}, std::vector{exponent})
                         .node("Pow", {"x", "e"}, {"y"})
                         .output("y"));
  };
  EXPECT_EQ(power(kFloat, 2.0), "square(x) : f32[4]");
  EXPECT_EQ(power(kFloat, 3.0), "pow(x, 3) : f32[4]");
  EXPECT_EQ(power(kInt64, 0.5), "cast(pow(cast(x, f64), cast(0.5, f64)), s64) : s64[4]");
}

TEST(OnnxMath, ModTakesTheDivisorsSign) {
  EXPECT_EQ(read_node(13, "Mod", {{"4"}, {"4"}}, {{"fmod", int64_t{1}}}, kInt64),
            "fmod(x, y) : s64[4]");
  EXPECT_EQ(read_node(13, "Mod", {{"4"}, {"4"}}, {{"fmod", int64_t{1}}}), "fmod(x, y) : f32[4]");
  EXPECT_EQ(read_node(13, "Mod", {{"4"}, {"4"}}), "error: Mod of floats with fmod=0");
}

TEST(OnnxMath, ScalarConstantsAreNumbers) {
  const auto scaled = [](std::vector<int64_t> shape) {
    return read_text(Model()
                         .input("x", {"M", "4"})
                         .weight("c", std::move(shape), std::vector{0.5})
                         .node("Mul", {"x", "c"}, {"y"})
                         .output("y"));
  };
  EXPECT_EQ(scaled({}), "x * 0.5 : f32[M, 4]");
  EXPECT_EQ(scaled({1, 1}), "x * 0.5 : f32[M, 4]");
  EXPECT_EQ(scaled({1, 1, 1}), "x * constant(f32[1, 1, 1], [0.5]) : f32[1, M, 4]");
}

TEST(OnnxMath, TypesMustAgree) {
  EXPECT_EQ(read_text(Model()
                          .input("x", {"4"})
                          .input("y", {"4"}, kInt64)
                          .node("Add", {"x", "y"}, {"z"}, {})
                          .output("z")),
            "error: operands of types f32 and s64");
}

TEST(OnnxMath, CastSaturatesToFloat8Only) {
  EXPECT_EQ(unary(19, "Cast", {{"to", int64_t{17}}}),
            "cast(x, f8e4m3, saturate=true) : f8e4m3[M, 4]");
  EXPECT_EQ(unary(19, "Cast", {{"to", int64_t{17}}, {"saturate", int64_t{0}}}),
            "cast(x, f8e4m3) : f8e4m3[M, 4]");
  EXPECT_EQ(unary(13, "Cast", {{"to", int64_t{3}}}), "cast(x, s8) : s8[M, 4]");
  EXPECT_EQ(unary(1, "Cast", {{"to", "FLOAT16"}}), "cast(x, f16) : f16[M, 4]");
  EXPECT_EQ(unary(13, "Cast", {{"to", int64_t{1}}}), "x : f32[M, 4]");
  EXPECT_EQ(unary(13, "Cast", {{"to", int64_t{8}}}),
            "error: ONNX element type string is not supported");
}

TEST(OnnxMath, DropoutIsForInference) {
  EXPECT_EQ(unary(13, "Dropout"), "x : f32[M, 4]");
  const auto mask =
      read_text(Model(13).input("x", {"M"}).node("Dropout", {"x"}, {"y", "m"}).output("m"));
  EXPECT_EQ(mask, "broadcast(true, [M]) : bool[M]");
  EXPECT_EQ(read_text(Model(13)
                          .input("x", {"M"})
                          .weight("t", {}, std::vector{1}, onnx::TensorProto::BOOL)
                          .node("Dropout", {"x", "", "t"}, {"y"})
                          .output("y")),
            "error: Dropout in training mode is not supported");
}

TEST(OnnxMath, AnAttributeOfTheWrongTypeIsAnError) {
  EXPECT_EQ(unary(16, "LeakyRelu", {{"alpha", int64_t{1}}}),
            "error: attribute alpha is INT, wanted FLOAT");
  EXPECT_EQ(
      read_text(Model().node("Constant", {}, {"y"}, {{"value_float", int64_t{2}}}).output("y")),
      "error: attribute value_float is INT, wanted FLOAT");
}

TEST(OnnxMath, OnnxruntimesOwnActivations) {
  const auto own = [](const std::string& op) {
    Model model(17);
    model.proto().add_opset_import()->set_domain("com.microsoft");
    model.proto().mutable_opset_import(1)->set_version(1);
    return read_text(
        model.input("x", {"M"}).node(op, {"x"}, {"y"}, {}, "com.microsoft").output("y"));
  };
  EXPECT_EQ(own("Gelu"), "gelu(x) : f32[M]");
  EXPECT_EQ(own("QuickGelu"), "quick_gelu(x) : f32[M]");
  EXPECT_EQ(own("FastGelu"), "gelu_tanh(x) : f32[M]");
  EXPECT_EQ(own("Crop"),
            "error: the model uses ops that are not supported:\n  Crop of domain com.microsoft: y");
}

}  // namespace
}  // namespace attacca::import
