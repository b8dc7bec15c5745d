// How the weights of a packed tensor (ir/packed/packed.hpp) are quantised. The tensor's header and
// the graph's unpack op both say it.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph/dtype.hpp"
#include "support/error.hpp"

namespace attacca::ir {

// Weight (n, k) is (code - zero) * scale, both of row n and of the group that k is in.
struct Packing {
  DType weights = DType::S8;  // s8, u8 or f8e4m3
  int bits = 8;               // of a code: 8, or for s8 and u8 also 4
  int64_t group = 0;          // values of k that share a scale: a power of two >= 64; 0: all
  // f32, f16 or bf16. u8, for 4-bit codes and groups of 128 or more: the weights are whole numbers
  // of s8, for products with s8.
  DType scales = DType::F32;
  bool zeros = false;  // whether there are zero points, of the weights' dtype
  bool whole() const { return scales == DType::U8; }
  friend bool operator==(const Packing&, const Packing&) = default;
};

// Errors: no packed tensor has this combination.
Status check(const Packing& packing);
// "s4", "f8e4m3".
std::string weights_name(const Packing& packing);
// As unpack's keywords: "weights=s8, bits=4, group=128, scales=bf16, zeros=true".
std::string to_string(const Packing& packing);

}  // namespace attacca::ir
