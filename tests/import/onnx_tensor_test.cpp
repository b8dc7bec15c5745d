#include "import/onnx/tensor.hpp"
#include "import/onnx_testing.hpp"

namespace attacca::import {
namespace {

// The elements as text, or the error.
std::string elements(const onnx::TensorProto& proto) {
  const auto tensor = read_tensor(proto, {});
  if (!tensor) return "error: " + tensor.error().what;
  std::string text(ir::name(tensor->dtype()));
  for (int64_t i = 0; i < tensor->size(); ++i) text += fmt::format(" {}", tensor->number_at(i));
  return text;
}

std::string raw(int type, std::vector<int64_t> shape, std::string bytes) {
  onnx::TensorProto proto = tensor_proto(type, std::move(shape), std::vector<int>{});
  proto.set_raw_data(bytes);
  return elements(proto);
}

// Typed fields: f16, bf16 and f8 are bits in int32_data.
TEST(OnnxTensor, TypedFields) {
  const auto typed = [](int type, std::vector<int> values) {
    return elements(tensor_proto(type, {static_cast<int64_t>(values.size())}, values));
  };
  EXPECT_EQ(typed(onnx::TensorProto::FLOAT, {1, -2}), "f32 1 -2");
  EXPECT_EQ(typed(onnx::TensorProto::INT8, {1, -2}), "s8 1 -2");
  EXPECT_EQ(typed(onnx::TensorProto::UINT8, {1, 200}), "u8 1 200");
  EXPECT_EQ(typed(onnx::TensorProto::INT32, {1, -2}), "s32 1 -2");
  EXPECT_EQ(typed(onnx::TensorProto::INT64, {1, -2}), "s64 1 -2");
  EXPECT_EQ(typed(onnx::TensorProto::BOOL, {0, 7}), "bool 0 1");
  EXPECT_EQ(typed(onnx::TensorProto::FLOAT16, {0x3c00, 0xc000}), "f16 1 -2");
  EXPECT_EQ(typed(onnx::TensorProto::BFLOAT16, {0x3f80, 0xc000}), "bf16 1 -2");
  EXPECT_EQ(typed(17, {0x38, 0xc0}), "f8e4m3 1 -2");
  EXPECT_EQ(typed(19, {0x3c, 0xc0}), "f8e5m2 1 -2");
}

TEST(OnnxTensor, RawData) {
  using std::string_literals::operator""s;
  EXPECT_EQ(raw(onnx::TensorProto::FLOAT, {1}, "\0\0\x80\x3f"s), "f32 1");
  EXPECT_EQ(raw(onnx::TensorProto::DOUBLE, {}, "\0\0\0\0\0\0\xf0\x3f"s), "f64 1");
  EXPECT_EQ(raw(onnx::TensorProto::FLOAT16, {2}, "\0\x3c\0\xc0"s), "f16 1 -2");
  EXPECT_EQ(raw(onnx::TensorProto::BOOL, {2}, "\0\x02"s), "bool 0 1");
  EXPECT_EQ(raw(onnx::TensorProto::FLOAT, {0, 3}, ""), "f32");
}

// The elements of a constant of 4-bit integers, or the error.
std::string nibbles(int type, std::vector<int64_t> shape, const std::string& bytes) {
  Model model(21);
  onnx::TensorProto& proto = *model.proto().mutable_graph()->add_initializer();
  proto = tensor_proto(type, std::move(shape), std::vector<int>{});
  proto.set_name("q");
  proto.set_raw_data(bytes);
  model.weight("one", {}, std::vector{1}).node("DequantizeLinear", {"q", "one"}, {"y"});
  return read_text(model.output("y"));
}

constexpr int kUint4 = 21, kInt4 = 22;  // newer than the schema

// The first number is in the low half of a byte.
TEST(OnnxTensor, FourBits) {
  EXPECT_EQ(nibbles(kUint4, {3}, "\x2f\xf8"),
            "cast(constant(u8[3], [15, 2, 8]), f32) * 1 : f32[3]");
  EXPECT_EQ(nibbles(kInt4, {3}, "\x2f\xf8"),
            "cast(constant(s8[3], [-1, 2, -8]), f32) * 1 : f32[3]");
  EXPECT_EQ(nibbles(kInt4, {0}, ""), "cast(constant(s8[0], []), f32) * 1 : f32[0]");
  EXPECT_EQ(nibbles(kInt4, {3}, "1"), "error: raw_data of the tensor u8[2] holds 1, wanted 2");
  Model typed(21);
  *typed.proto().mutable_graph()->add_initializer() =
      tensor_proto(kInt4, {2, 2}, std::vector{0xf1, 0x82});
  typed.proto().mutable_graph()->mutable_initializer(0)->set_name("q");
  typed.weight("one", {}, std::vector{1}).node("DequantizeLinear", {"q", "one"}, {"y"}).output("y");
  EXPECT_EQ(read_text(typed), "cast(constant(s8[2, 2], [1, -1, 2, -8]), f32) * 1 : f32[2, 2]");
}

TEST(OnnxTensor, FourBitsAreForDequantizeLinear) {
  const auto with = [](const char* op, const std::vector<std::string>& inputs) {
    Model model(21);
    model.input("x", {"2"}).input("q8", {"2"}, kInt8).weight("one", {}, std::vector{1});
    model.weight("q4", {2}, std::vector{0x21}, kInt4).weight("z4", {}, std::vector{1}, kInt4);
    return error_of(model.node(op, inputs, {"y"}).output("y"));
  };
  EXPECT_EQ(with("DequantizeLinear", {"q4", "one", "z4"}).what, "no error");
  EXPECT_EQ(with("DequantizeLinear", {"q8", "one", "z4"}).what,
            "the type of the zero point is not that of the numbers");
  for (const auto& [op, inputs] : std::vector<std::pair<const char*, std::vector<std::string>>>{
           {"Transpose", {"q4"}}, {"QuantizeLinear", {"x", "one", "q4"}}}) {
    const Error error = with(op, inputs);
    EXPECT_EQ(error.what, "input q4 is of 4-bit integers");
    EXPECT_EQ(error.fix,
              "give them to DequantizeLinear, as an initializer; use int8 or uint8 elsewhere");
  }
  Model input(21);
  input.input("x", {"2"}, kInt4).node("Identity", {"x"}, {"y"}).output("y");
  EXPECT_EQ(error_of(input).what, "ONNX element type int4 is not supported here");
  Model output(21);
  output.weight("q4", {2}, std::vector{0x21}, kInt4).output("q4");
  EXPECT_EQ(error_of(output).what, "4-bit integers are not supported as an output");
}

TEST(OnnxTensor, ShapeAndDataMustAgree) {
  EXPECT_EQ(raw(onnx::TensorProto::FLOAT, {2}, "1234"),
            "error: raw_data of the tensor f32[2] holds 4, wanted 8");
  EXPECT_EQ(raw(onnx::TensorProto::FLOAT, {-1}, "1234"),
            "error: the tensor has the negative dimension -1");
  EXPECT_EQ(raw(onnx::TensorProto::FLOAT, {int64_t{1} << 40, int64_t{1} << 40}, ""),
            "error: the size of the tensor [1099511627776, 1099511627776] overflows");
  EXPECT_EQ(
      raw(onnx::TensorProto::FLOAT, {int64_t{1} << 30, int64_t{1} << 20}, ""),
      "error: raw_data of the tensor f32[1073741824, 1048576] holds 0, wanted 4503599627370496");
  EXPECT_EQ(raw(onnx::TensorProto::FLOAT, std::vector<int64_t>(40, 1), "1234"),
            "error: the tensor has 40 dimensions, more than 32");
  EXPECT_EQ(raw(onnx::TensorProto::STRING, {1}, "x"),
            "error: ONNX element type string is not supported");
  EXPECT_EQ(raw(99, {1}, "x"), "error: ONNX element type 99 is not supported");
  onnx::TensorProto external = tensor_proto(kFloat, {1}, std::vector<int>{});
  external.set_data_location(onnx::TensorProto::EXTERNAL);
  external.add_external_data()->set_key("location");
  external.mutable_external_data(0)->set_value("weights.bin");
  EXPECT_EQ(elements(external), "error: the weights are in the file weights.bin");
}

}  // namespace
}  // namespace attacca::import
