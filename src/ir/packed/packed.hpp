// Quantised weights (N, K) as one tensor of bytes, in the order in which a tensor core takes them,
// so that a kernel loads them without sorting. It describes itself:
//
//   offset  bytes
//   0       8   "ATTPACK\n"
//   8       4   version: 1
//   12      4   bytes of the header: 256
//   16      4   layout: 1, fragments of 16 x 16; 2, of 16 x 32, with scales of u8
//   20      4   the least compute capability whose kernels take this layout: 80
//   24      4   dtype of the weights: 1 s8, 2 u8, 3 f8e4m3
//   28      4   bits of a code: 4 or 8
//   32      4   dtype of the scales: 1 f32, 2 f16, 3 bf16, 4 u8
//   36      4   flags: 1, zero points follow; 2, the scales fold
//   40      24  n, k, group (0: one group a row)
//   64      8   bytes of the whole
//   72      8   XXH3 of all that follows the header
//   80      8   XXH3 of the header's first 80 bytes
//   88      168 zero
//   256         codes, then scales, then zero points, each at a multiple of 256
//
// All numbers are little-endian. n and k are padded to multiples of 64. Codes are unsigned: signed
// ones have their highest bit inverted. Blocks of 64 x 64 weights follow each other along k, then
// along n. A block is four fragments of 16 rows; a fragment is 16 bytes for each of 32 lanes (with
// 8-bit codes twice, for 32 values of k each). Of each 16 values of k, lane l has the elements that
// it holds of operand A of mma.m16n8k16: in the rows r and r + 8 the columns c, c + 1, c + 8, c +
// 9, where r = l / 4 and c = 2 * (l % 4). Of eight 4-bit codes, those of c and c + 8 are the low
// half of a word. In layout 2, k is padded to a multiple of 128, and lane l has of each 32 values
// of k what it holds of operand A of mma.m16n8k32, in two words: of c to c + 3, with c = 4 * (l %
// 4), and of c + 16 to c + 19. A byte of a word is a value of k; its low half is the code of row r,
// its high half that of row r + 8. Scales and zero points: for each 64 rows, for each group, 64
// entries; row n has entry 8 * (n % 8) + n % 64 / 8. Scales fold if a kernel may multiply codes and
// scales in one step (templates/kernels/packed/folded/feed.cuh): 4-bit s8 weights without zero
// points, bf16 scales that are 0 or of a size from 2^-123 to below 2. Tensors of older versions
// lack the flag.
#pragma once

#include <optional>
#include <span>

#include "ir/graph/graph.hpp"
#include "ir/graph/packed_layout.hpp"
#include "ir/graph/tensor.hpp"

namespace attacca::ir {

// Weights that are not packed. With scales of u8 each (code - zero point) * scale is an s8. 8-bit
// codes are (N, K). Two 4-bit codes share a byte, the first one in the low
// half: (N, K / 2). Scales and zero points are (N, groups), or (N) if there is one group; each zero
// point has a byte, for 4-bit codes too.
struct Quantized {
  Tensor weights, scales;
  std::optional<Tensor> zeros;
};

// The packed tensor, u8[bytes]. Errors: sizes or dtypes that do not fit together, NaN weights.
Result<Tensor> pack(const Quantized& from, const Packing& packing);

// The weights that were packed, bit for bit, with scales (N, groups).
Result<Quantized> unpack(std::span<const std::byte> bytes);
// The weights (N, K) as numbers: the product in f32, rounded to the result's dtype; for f64 the
// unrounded product.
// REQUIRES: verified bytes, a result of n * k elements.
void dequantize(std::span<const std::byte> bytes, const PackedLayout& layout, Tensor& result);

}  // namespace attacca::ir
