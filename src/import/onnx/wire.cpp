#include "import/onnx/wire.hpp"

#include <optional>

#include "fmt/format.h"

#include "support/files/file.hpp"

namespace attacca::import {
namespace {

constexpr size_t kMaxBytes = (size_t{1} << 31) - 1;  // protobuf's
constexpr const char* kTooLong = "store the weights as external data";
// A two-byte field can become a 200-byte object, so fields are counted before protobuf builds them.
constexpr int64_t kMaxFields = 8'000'000;
constexpr int kMaxDepth = 40;

enum class Message : uint8_t { Leaf, Model, Graph, Node, Attribute, Function, Training };

// The messages that hold many fields or hold each other; the rest count as one field.
struct Nested {
  Message outer;
  uint32_t field;
  Message inner;
};
constexpr Nested kNested[] = {
    {Message::Model, 7, Message::Graph},      {Message::Model, 20, Message::Training},
    {Message::Model, 25, Message::Function},  {Message::Graph, 1, Message::Node},
    {Message::Node, 5, Message::Attribute},   {Message::Attribute, 6, Message::Graph},
    {Message::Attribute, 11, Message::Graph}, {Message::Function, 7, Message::Node},
    {Message::Training, 1, Message::Graph},   {Message::Training, 2, Message::Graph},
};

Message nested(Message outer, uint64_t field) {
  for (const Nested& row : kNested)
    if (row.outer == outer && row.field == field) return row.inner;
  return Message::Leaf;
}

std::optional<uint64_t> varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

class Scanner {
 public:
  Status scan(std::string_view bytes, Message message, int depth) {
    if (depth > kMaxDepth)
      return fail(fmt::format("the model nests messages deeper than {}", kMaxDepth));
    while (!bytes.empty()) {
      if (++fields_ > kMaxFields)
        return fail(fmt::format("the model has more than {} fields", kMaxFields));
      const auto key = varint(bytes);
      if (!key) return broken();
      switch (*key & 7) {
        case 0:
          if (!varint(bytes)) return broken();
          break;
        case 1:
          if (bytes.size() < 8) return broken();
          bytes.remove_prefix(8);
          break;
        case 2: {
          const auto length = varint(bytes);
          if (!length || *length > bytes.size()) return broken();
          if (const Message inner = nested(message, *key >> 3); inner != Message::Leaf)
            ATTACCA_TRY_VOID(scan(bytes.substr(0, *length), inner, depth + 1));
          bytes.remove_prefix(*length);
          break;
        }
        case 5:
          if (bytes.size() < 4) return broken();
          bytes.remove_prefix(4);
          break;
        default:
          return broken();
      }
    }
    return {};
  }

 private:
  static Status broken() {
    return fail("the model is truncated or not an ONNX file", {},
                "export it again, or check the download");
  }
  int64_t fields_ = 0;
};

}  // namespace

Result<std::unique_ptr<onnx::ModelProto>> parse_model(std::string_view bytes) {
  if (bytes.empty()) return fail("the model is empty", {}, "export it again");
  if (bytes.size() > kMaxBytes)
    return fail(
        fmt::format("the model has {} bytes, more than protobuf's {}", bytes.size(), kMaxBytes), {},
        kTooLong);
  ATTACCA_TRY_VOID(Scanner().scan(bytes, Message::Model, 0));
  auto model = std::make_unique<onnx::ModelProto>();
  if (!model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail("the model is truncated or not an ONNX file", {},
                "export it again, or check the download");
  if (!model->has_graph()) return fail("the model holds no graph", {}, "export it again");
  return model;
}

Result<std::unique_ptr<onnx::ModelProto>> read_model(const std::string& path) {
  ATTACCA_TRY(const std::string bytes, read_file(path, {kMaxBytes, kTooLong}));
  return parse_model(bytes);
}

namespace {

// The bytes of each field of this number among those that the schema does not know. Later schemas
// add only strings and messages.
std::vector<std::string_view> newer_fields(std::string_view bytes, uint64_t number) {
  std::vector<std::string_view> found;
  while (!bytes.empty()) {
    const auto key = varint(bytes);
    if (!key || (*key & 7) != 2) break;
    const auto length = varint(bytes);
    if (!length || *length > bytes.size()) break;
    if (*key >> 3 == number) found.push_back(bytes.substr(0, *length));
    bytes.remove_prefix(*length);
  }
  return found;
}

std::string last_of(const std::vector<std::string_view>& texts) {
  return texts.empty() ? std::string() : std::string(texts.back());
}

}  // namespace

std::vector<onnx::AttributeProto> default_attributes(const onnx::FunctionProto& function) {
  constexpr uint64_t kAttributeProto = 11;
  std::vector<onnx::AttributeProto> defaults;
  for (const std::string_view bytes : newer_fields(function.unknown_fields(), kAttributeProto)) {
    onnx::AttributeProto attribute;
    if (attribute.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      defaults.push_back(std::move(attribute));
  }
  return defaults;
}

std::string overload_of(const onnx::FunctionProto& function) {
  constexpr uint64_t kOverload = 13;
  return last_of(newer_fields(function.unknown_fields(), kOverload));
}

std::string overload_of(const onnx::NodeProto& node) {
  constexpr uint64_t kOverload = 8;
  return last_of(newer_fields(node.unknown_fields(), kOverload));
}

}  // namespace attacca::import
