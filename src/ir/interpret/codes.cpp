#include "ir/interpret/codes.hpp"

#include <cstring>
#include <span>
#include <type_traits>

#include "fmt/format.h"

#include "ir/interpret/mxfp4.hpp"

namespace attacca::ir {

std::optional<CodeFormat> code_format(const Graph& graph, const Node& node) {
  if (node.op == Op::MxFp4) return CodeFormat{.mxfp4 = true, .block = kMxFp4Block};
  if (node.op != Op::Decode) return std::nullopt;
  const auto& attrs = node.get<DecodeAttrs>();
  const Type& scales = graph.type(node.operands[1]);
  return CodeFormat{.bits = static_cast<int>(attrs.bits),
                    .is_signed = graph.type(node.operands[0]).dtype == DType::S8,
                    .zero = static_cast<int>(attrs.zero),
                    .block = node.type.shape.back().value() / scales.shape.back().value(),
                    .scales = scales.dtype,
                    .zeros = node.operands.size() > 2,
                    .dtype = attrs.dtype};
}

std::string codes_name(const CodeFormat& format) {
  if (format.mxfp4) return "mxfp4";
  return fmt::format("{}{}", format.is_signed ? 's' : 'u', format.bits);
}

std::string to_string(const CodeFormat& format) {
  if (format.mxfp4) return "mxfp4";
  const std::string zero = format.zeros       ? " less zeros"
                           : format.zero != 0 ? fmt::format(" less {}", format.zero)
                                              : "";
  return fmt::format("{}{} by {} of {}", codes_name(format), zero, name(format.scales),
                     format.block);
}

CodeMemory CodeMemory::from(const CodeFormat& format, int64_t weight) const {
  const int64_t block = weight / format.block;
  return {codes + weight * format.bits / 8, scales + block * size_of(format.scales),
          zeros == nullptr ? nullptr : zeros + block};
}

namespace {

float scale_at(const CodeFormat& format, const std::byte* scales) {
  if (format.scales == DType::F32) {
    float scale = 0;
    std::memcpy(&scale, scales, sizeof scale);
    return scale;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, scales, sizeof bits);
  return decode16(format.scales, bits);
}

template <class T>
T encoded(DType dtype, float value) {
  if constexpr (std::is_same_v<T, float>)
    return value;
  else
    return encode16(dtype, value);
}

template <class T>
void decode_block(const CodeFormat& format, const CodeMemory& from, std::span<T> to) {
  const float scale = scale_at(format, from.scales);
  const int zero = from.zeros == nullptr ? format.zero : static_cast<int>(*from.zeros);
  const auto value = [&](int code) {
    return encoded<T>(format.dtype, static_cast<float>(code - zero) * scale);
  };
  const auto* bytes = reinterpret_cast<const uint8_t*>(from.codes);
  if (format.bits == 8) {
    for (T& each : to) {
      const uint8_t byte = *bytes++;
      each = value(format.is_signed ? static_cast<int8_t>(byte) : byte);
    }
    return;
  }
  T values[16];
  for (int code = 0; code < 16; ++code)
    values[code] = value(static_cast<int>(code_of(format, code, 0)));
  for (size_t i = 0; i < to.size(); i += 2) {
    const uint8_t byte = *bytes++;
    to[i] = values[byte & 15];
    to[i + 1] = values[byte >> 4];
  }
}

template <class T>
void decode_blocks(const CodeFormat& format, const CodeMemory& from, int64_t count, std::byte* to) {
  const auto block = static_cast<size_t>(format.block);
  for (int64_t at = 0; at < count; at += format.block)
    decode_block(format, from.from(format, at), std::span<T>(reinterpret_cast<T*>(to) + at, block));
}

}  // namespace

void decode(const CodeFormat& format, const CodeMemory& from, int64_t count, std::byte* to) {
  if (format.dtype == DType::F32) return decode_blocks<float>(format, from, count, to);
  decode_blocks<uint16_t>(format, from, count, to);
}

}  // namespace attacca::ir
