// Quantised weights (N, K) as one tensor of bytes, in the order in which a tensor core takes them,
// so that a kernel loads them without sorting. It describes itself:
//
//   offset  bytes
//   0       8   "ATTPACK\n"
//   8       4   version: 1
//   12      4   bytes of the header: 256
//   16      4   layout: 1, fragments of 16 x 16
//   20      4   the least compute capability whose kernels take this layout: 80
//   24      4   dtype of the weights: 1 s8, 2 u8, 3 f8e4m3
//   28      4   bits of a code: 4 or 8
//   32      4   dtype of the scales: 1 f32, 2 f16, 3 bf16
//   36      4   1: zero points follow
//   40      24  n, k, group (0: one group a row)
//   64      8   bytes of the whole
//   72      8   XXH3 of all that follows the header
//   80      8   XXH3 of the header's first 80 bytes
//   88      168 zero
//   256         codes, then scales, then zero points, each at a multiple of 256
//
// All numbers are little-endian. n and k are padded to multiples of 64. Codes are unsigned: signed
// ones have their highest bit turned. Blocks of 64 x 64 weights follow each other along k, then n;
// in a block four fragments of 16 rows, each of 32 lanes' 16 bytes (8-bit codes: twice, 32 values
// of k each). Lane l has, of each 16 values of k, what it holds of operand A of mma.m16n8k16: row l
// / 4 and that + 8, k = l % 4 * 2 and that + 8, two neighbours each. Of eight 4-bit codes the four
// first neighbours are the low half of a word. Scales and zero points: for each 64 rows, for each
// group, 64 entries, entry 8 * (n % 8) + n % 64 / 8.
#pragma once

#include <optional>
#include <span>

#include "ir/graph/graph.hpp"
#include "ir/graph/packed_layout.hpp"
#include "ir/graph/tensor.hpp"

namespace attacca::ir {

// As they are outside of a packed tensor. Codes of 8 bits are (N, K); two of 4 bits share a byte,
// (N, K / 2), the lower half first. Scales and zero points are (N, groups), or (N) where that is 1;
// zero points of 4-bit codes are one a byte.
struct Quantized {
  Tensor weights, scales;
  std::optional<Tensor> zeros;
};

// u8[bytes]. Errors name what does not fit; NaN weights are refused.
Result<Tensor> pack(const Quantized& from, const Packing& packing);

// What was packed, bit for bit; scales (N, groups).
Result<Quantized> unpack(std::span<const std::byte> bytes);
// Weights (N, K) as numbers: the f32 product, rounded to the result's dtype; of f64, unrounded.
// REQUIRES: verified bytes, a result of n * k elements.
void dequantize(std::span<const std::byte> bytes, const PackedLayout& layout, Tensor& result);

}  // namespace attacca::ir
