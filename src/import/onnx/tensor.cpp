#include "import/onnx/tensor.hpp"

#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "fmt/format.h"

#include "import/onnx/node.hpp"

namespace attacca::import {
namespace {

using ir::DType;
using ir::Tensor;

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

struct OnnxType {
  int32_t code;
  std::string_view name;
  std::optional<DType> dtype;
};
constexpr OnnxType kTypes[] = {
    {1, "float", DType::F32},
    {2, "uint8", DType::U8},
    {3, "int8", DType::S8},
    {4, "uint16", {}},
    {5, "int16", {}},
    {6, "int32", DType::S32},
    {7, "int64", DType::S64},
    {8, "string", {}},
    {9, "bool", DType::Bool},
    {10, "float16", DType::F16},
    {11, "double", DType::F64},
    {12, "uint32", {}},
    {13, "uint64", {}},
    {14, "complex64", {}},
    {15, "complex128", {}},
    {16, "bfloat16", DType::BF16},
    {17, "float8e4m3fn", DType::F8E4M3},
    {18, "float8e4m3fnuz", {}},
    {19, "float8e5m2", DType::F8E5M2},
    {20, "float8e5m2fnuz", {}},
    {21, "uint4", {}},
    {22, "int4", {}},
    {23, "float4e2m1", {}},
};

constexpr int32_t kUint4 = 21, kInt4 = 22;  // which the schema does not name

constexpr size_t kMaxRank = 32;

struct Layout {
  DType dtype;
  std::vector<int64_t> shape;
  int64_t count;
  int64_t bytes;
};

Result<Layout> layout_of(const onnx::TensorProto& proto) {
  ATTACCA_TRY(const DType dtype, read_dtype(proto.data_type()));
  if (static_cast<size_t>(proto.dims_size()) > kMaxRank)
    return fail(
        fmt::format("the tensor has {} dimensions, more than {}", proto.dims_size(), kMaxRank));
  Layout layout{dtype, {proto.dims().begin(), proto.dims().end()}, 1, ir::size_of(dtype)};
  bool overflow = false;
  for (const int64_t extent : layout.shape) {
    if (extent < 0) return fail(fmt::format("the tensor has the negative dimension {}", extent));
    overflow |= __builtin_mul_overflow(layout.count, extent, &layout.count);
  }
  overflow |= __builtin_mul_overflow(layout.count, layout.bytes, &layout.bytes);
  if (overflow)
    return fail(fmt::format("the size of the tensor {} overflows", ir::to_string(layout.shape)));
  return layout;
}

Status wrong_length(const Layout& layout, std::string_view field, int64_t got, int64_t wanted) {
  return fail(fmt::format("{} of the tensor {}{} holds {}, wanted {}", field,
                          ir::name(layout.dtype), ir::to_string(layout.shape), got, wanted),
              {}, "the file is damaged: export it again");
}

// Bool has only the bytes 0 and 1.
void normalise_bools(Tensor& tensor, const Layout& layout) {
  if (layout.dtype != DType::Bool) return;
  for (int64_t i = 0; i < layout.count; ++i) tensor.as<uint8_t>()[i] = tensor.as<uint8_t>()[i] != 0;
}

Result<Tensor> from_raw(const Layout& layout, std::string_view raw) {
  if (static_cast<int64_t>(raw.size()) != layout.bytes)
    ATTACCA_TRY_VOID(
        wrong_length(layout, "raw_data", static_cast<int64_t>(raw.size()), layout.bytes));
  ATTACCA_TRY(Tensor tensor, Tensor::make(layout.dtype, layout.shape));
  if (!raw.empty()) std::memcpy(tensor.data(), raw.data(), raw.size());
  normalise_bools(tensor, layout);
  return tensor;
}

template <class T, class Field>
Result<Tensor> from_field(const Layout& layout, std::string_view name, const Field& field) {
  if (field.size() != layout.count)
    ATTACCA_TRY_VOID(wrong_length(layout, name, field.size(), layout.count));
  ATTACCA_TRY(Tensor tensor, Tensor::make(layout.dtype, layout.shape));
  for (int64_t i = 0; i < layout.count; ++i)
    tensor.as<T>()[i] = static_cast<T>(field[static_cast<int>(i)]);
  normalise_bools(tensor, layout);
  return tensor;
}

// The field of each type: float8, float16 and bfloat16 are bits in int32_data.
Result<Tensor> from_typed(const Layout& layout, const onnx::TensorProto& proto) {
  switch (layout.dtype) {
    case DType::F32:
      return from_field<float>(layout, "float_data", proto.float_data());
    case DType::F64:
      return from_field<double>(layout, "double_data", proto.double_data());
    case DType::S64:
      return from_field<int64_t>(layout, "int64_data", proto.int64_data());
    case DType::S32:
      return from_field<int32_t>(layout, "int32_data", proto.int32_data());
    case DType::F16:
    case DType::BF16:
      return from_field<uint16_t>(layout, "int32_data", proto.int32_data());
    case DType::F8E4M3:
    case DType::F8E5M2:
    case DType::S8:
    case DType::U8:
      return from_field<uint8_t>(layout, "int32_data", proto.int32_data());
    case DType::Bool: {
      auto truths = proto.int32_data();
      for (int32_t& each : truths) each = each != 0;  // 256 is true, too
      return from_field<uint8_t>(layout, "int32_data", truths);
    }
  }
  return fail("unknown element type");
}

struct External {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;
};

Result<int64_t> parse_count(const std::string& key, const std::string& text) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0)
    return fail(fmt::format("external data: {} is not a size: {}", key, text));
  return value;
}

Result<External> read_external(const onnx::TensorProto& proto) {
  External external;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") external.location = entry.value();
    if (entry.key() == "offset") {
      ATTACCA_TRY(external.offset, parse_count("offset", entry.value()));
    }
    if (entry.key() == "length") {
      ATTACCA_TRY(external.length, parse_count("length", entry.value()));
    }
  }
  if (external.location.empty()) return fail("external data names no file");
  return external;
}

// The file, which lies in the model's directory even after symbolic links are followed.
Result<std::filesystem::path> locate(const std::string& location, const std::string& directory) {
  namespace fs = std::filesystem;
  if (directory.empty())
    return fail(fmt::format("the weights are in the file {}", location), {},
                "read the model from a file beside it");
  const auto outside = [&] {
    return fail(fmt::format("external data lies outside the model's directory: {}", location), {},
                "put it beside the model and export again");
  };
  const fs::path relative(location);
  if (location.find('\0') != std::string::npos || relative.is_absolute()) return outside();
  for (const fs::path& part : relative)
    if (part == "..") return outside();
  std::error_code code;
  const fs::path root = fs::canonical(directory, code);
  const fs::path file = code ? fs::path() : fs::canonical(root / relative, code);
  if (code || !fs::is_regular_file(file, code))
    return fail(fmt::format("external data file {} cannot be read", location), {},
                "put it beside the model");
  const auto [mismatch, end] = std::mismatch(root.begin(), root.end(), file.begin(), file.end());
  if (mismatch != root.end()) return outside();
  return file;
}

Result<Tensor> from_external(const Layout& layout, const onnx::TensorProto& proto,
                             const std::string& directory) {
  ATTACCA_TRY(const External external, read_external(proto));
  ATTACCA_TRY(const std::filesystem::path path, locate(external.location, directory));
  std::error_code code;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, code));
  if (code) return fail(fmt::format("external data file {} cannot be read", external.location));
  if (external.length && *external.length != layout.bytes)
    ATTACCA_TRY_VOID(wrong_length(layout, "external data", *external.length, layout.bytes));
  if (external.offset > size || layout.bytes > size - external.offset)
    return fail(fmt::format("external data file {} has {} bytes, wanted {} at {}",
                            external.location, size, layout.bytes, external.offset),
                {}, "the file is damaged: export it again");
  ATTACCA_TRY(Tensor tensor, Tensor::make(layout.dtype, layout.shape));
  std::ifstream stream(path, std::ios::binary);
  stream.seekg(external.offset);
  stream.read(reinterpret_cast<char*>(tensor.data()), layout.bytes);
  if (stream.gcount() != layout.bytes)
    return fail(fmt::format("external data file {} cannot be read", external.location));
  normalise_bools(tensor, layout);
  return tensor;
}

}  // namespace

std::string onnx_dtype_name(int32_t code) {
  for (const OnnxType& type : kTypes)
    if (type.code == code) return std::string(type.name);
  return fmt::format("{}", code);
}

namespace {

bool is_four_bits(int32_t code) {
  return code == kInt4 || code == kUint4;
}

// Two numbers lie in a byte, the first in its low half; int32_data has a byte in each number.
Result<Tensor> read_four_bits(const onnx::TensorProto& proto, const std::string& directory) {
  const bool is_signed = proto.data_type() == kInt4;
  onnx::TensorProto pairs = proto;
  pairs.set_data_type(onnx::TensorProto::UINT8);
  ATTACCA_TRY(const Layout layout, layout_of(pairs));
  pairs.clear_dims();
  pairs.add_dims(layout.count / 2 + layout.count % 2);
  ATTACCA_TRY(const Tensor packed, read_tensor(pairs, directory));
  ATTACCA_TRY(Tensor wide, Tensor::make(is_signed ? DType::S8 : DType::U8, layout.shape));
  for (int64_t i = 0; i < layout.count; ++i) {
    const int number = packed.as<uint8_t>()[i / 2] >> (i % 2 * 4) & 15;
    wide.as<uint8_t>()[i] = static_cast<uint8_t>(is_signed && number > 7 ? number - 16 : number);
  }
  return wide;
}

}  // namespace

Result<DType> read_dtype(int32_t code) {
  for (const OnnxType& type : kTypes)
    if (type.code == code && type.dtype) return *type.dtype;
  const std::string what =
      fmt::format("ONNX element type {} is not supported", onnx_dtype_name(code));
  if (is_four_bits(code)) return fail(what + " here", {}, std::string(kFourBitsFix));
  return fail(what, {},
              "cast to float, float16, bfloat16, double, float8e4m3fn, float8e5m2, int8, uint8, "
              "int32, int64 or bool");
}

std::optional<SixteenBits> sixteen_bits_of(int32_t code) {
  if (code == onnx::TensorProto::INT16) return SixteenBits{-32768, 32767};
  if (code == onnx::TensorProto::UINT16) return SixteenBits{0, 65535};
  return std::nullopt;
}

Result<Tensor> read_tensor(const onnx::TensorProto& proto, const std::string& directory) {
  ATTACCA_TRY(const Layout layout, layout_of(proto));
  if (proto.has_segment()) return fail("segmented tensors are not supported");
  if (proto.data_location() == onnx::TensorProto::EXTERNAL)
    return from_external(layout, proto, directory);
  return proto.has_raw_data() ? from_raw(layout, proto.raw_data()) : from_typed(layout, proto);
}

Result<Entry> read_constant(ir::Graph& graph, const onnx::TensorProto& proto,
                            const std::string& directory) {
  if (is_four_bits(proto.data_type())) {
    ATTACCA_TRY(Tensor numbers, read_four_bits(proto, directory));
    Entry entry(add_constant(graph, std::move(numbers)));
    entry.four_bits = true;
    return entry;
  }
  const auto bits = sixteen_bits_of(proto.data_type());
  if (!bits) {
    ATTACCA_TRY(Tensor tensor, read_tensor(proto, directory));
    return Entry(add_constant(graph, std::move(tensor)));
  }
  onnx::TensorProto as_halves = proto;  // whose bits are stored alike
  as_halves.set_data_type(onnx::TensorProto::FLOAT16);
  ATTACCA_TRY(const Tensor halves, read_tensor(as_halves, directory));
  ATTACCA_TRY(Tensor wide, Tensor::make(DType::S32, halves.shape()));
  const bool is_signed = bits->low < 0;
  for (int64_t i = 0; i < halves.size(); ++i) {
    const uint16_t number = halves.as<uint16_t>()[i];
    wide.as<int32_t>()[i] = is_signed ? static_cast<int16_t>(number) : number;
  }
  Entry entry(add_constant(graph, std::move(wide)));
  entry.sixteen_bits = bits;
  return entry;
}

}  // namespace attacca::import
