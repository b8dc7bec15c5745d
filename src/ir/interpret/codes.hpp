// Weights as codes in memory: of 4 or 8 bits, with scales of blocks along the last axis, as the ops
// mxfp4 and decode read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "ir/graph/graph.hpp"

namespace attacca::ir {

// decode: weight = (code - zero point) * scale, in f32, rounded to `dtype`. Two codes of 4 bits
// share a byte, the first one in its lower half.
struct CodeFormat {
  bool mxfp4 = false;         // as ir/interpret/mxfp4.hpp says; else integers
  int bits = 4;               // of a code: 4 or 8
  bool is_signed = false;     // integers: two's complement
  int zero = 0;               // the code of 0, without zero points
  int64_t block = 32;         // weights along the last axis that share a scale
  DType scales = DType::U8;   // integers: f32, bf16 or f16
  bool zeros = false;         // each scale has a zero point, of u8
  DType dtype = DType::BF16;  // of the weights
  friend bool operator==(const CodeFormat&, const CodeFormat&) = default;

  // The bytes of codes, scales and zero points of a weight.
  double bytes() const {
    return bits / 8.0 + double(size_of(scales) + (zeros ? 1 : 0)) / double(block);
  }
};

// Of an mxfp4 or decode node; nullopt: of another.
std::optional<CodeFormat> code_format(const Graph& graph, const Node& node);

// "mxfp4", or such as "u4" and "s8".
std::string codes_name(const CodeFormat& format);
// All of it: "mxfp4", "u4 less 8 by bf16 of 64", "u4 less zeros by f16 of 32".
std::string to_string(const CodeFormat& format);

// The code of weight `at` in its byte, which has the sign of the codes' dtype.
inline int64_t code_of(const CodeFormat& format, int64_t byte, int64_t at) {
  if (format.bits == 8) return byte;
  const int64_t code = byte >> (4 * (at % 2)) & 15;
  return format.is_signed && code >= 8 ? code - 16 : code;
}

// Where weights in codes lie.
struct CodeMemory {
  const std::byte *codes = nullptr, *scales = nullptr, *zeros = nullptr;

  // The same from a weight on, which begins a block.
  CodeMemory from(const CodeFormat& format, int64_t weight) const;
};

// Integers: `count` weights, in whole blocks, in the format's dtype.
void decode(const CodeFormat& format, const CodeMemory& from, int64_t count, std::byte* to);

}  // namespace attacca::ir
