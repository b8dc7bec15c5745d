// Writes protobuf's wire format: as much of it as an ONNX model needs. ONNX Runtime has a protobuf
// of its own inside, and libattacca.so another one.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace attacca::ort {

class Message {
 public:
  void number(uint32_t field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
  }
  void real(uint32_t field, float value) {
    key(field, 5);
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);  // little-endian, as the wire has it
    bytes_.append(bytes, sizeof value);
  }
  void text(uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_.append(value);
  }
  void message(uint32_t field, const Message& value) { text(field, value.bytes_); }

  std::string take() && { return std::move(bytes_); }

 private:
  void key(uint32_t field, uint32_t kind) { varint(field << 3 | kind); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace attacca::ort
