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
