// How the weights of a packed tensor (ir/packed/packed.hpp) are quantised: what stands in its
// header, and in a graph's unpack op.
#pragma once

#include <cstdint>
#include <string>

#include "ir/graph/dtype.hpp"
#include "support/error.hpp"

namespace attacca::ir {

// Weight (n, k) is (code - zero) * scale, both of row n and of the group that k is in.
struct Packing {
  DType weights = DType::S8;  // s8, u8 or f8e4m3
  int bits = 8;               // of a code: 8, or 4 of s8 and u8
  int64_t group = 0;          // values of k that share a scale: a power of two >= 64; 0: all
  DType scales = DType::F32;  // f32, f16 or bf16
  bool zeros = false;         // whether there are zero points, of the weights' dtype
  friend bool operator==(const Packing&, const Packing&) = default;
};

// Whether there is such a packing.
Status check(const Packing& packing);
// "s4", "f8e4m3".
std::string weights_name(const Packing& packing);
// As unpack's keywords: "weights=s8, bits=4, group=128, scales=bf16, zeros=true".
std::string to_string(const Packing& packing);

}  // namespace attacca::ir
