// Packed weights (ir/packed/packed.hpp) as kernels see them, from a row's DEFINES:
//   CODE_BITS    bits of a weight's code: 4 or 8
//   CODE_FLOATS  1: codes are f8e4m3 (CODE_BITS=8), or those of MXFP4 (CODES=1); 0: integers
//   SCALE_BITS   16: scales have A's type; 32: they are f32; 8: they are u8, weights and A are s8
//   A_BF16       1: A is bf16; 0: f16
//   CODES        1: weights are not packed, but lie in memory as the graph has them
//                (grouped_codes/feed.cuh)
#pragma once

#include <cstdint>

#include "abi.h"

namespace attacca_packed_weights {

constexpr int kCodeBits = CODE_BITS, kScaleBits = SCALE_BITS;
constexpr bool kCodeFloats = CODE_FLOATS, kBf16 = A_BF16;
#ifdef CODES
constexpr bool kAsTheyLie = true;
#else
constexpr bool kAsTheyLie = false;
#endif
static_assert(kCodeBits == 4 || kCodeBits == 8);
static_assert(!(kCodeFloats && kCodeBits == 4) || kAsTheyLie);

constexpr int kBlock = 64;         // values of k, and columns, of a block of packed weights
constexpr int64_t kCodesAt = 256;  // where the codes begin, after the packed tensor's header
constexpr int kBlockBytes = kBlock * kBlock * kCodeBits / 8;
constexpr int kScaleBytes = kScaleBits / 8;
constexpr int kLoads = kCodeBits / 4;  // 16-byte loads of a fragment of a block

// A packed tensor, in a kernel's parameters.
struct Weights {
  const char* packed;
  int64_t scales_at, zeros_at;
  int32_t blocks_n, blocks_k;
  int32_t groups;       // of a row
  int32_t group_shift;  // a block's number along k, shifted by this, is its group
  int32_t zero;         // the code of 0 where there are no zero points
  int32_t has_zeros;
};

// Host side: from the caller's arguments.
inline Weights packed_weights(const attacca_gemm_arguments& arguments) {
  const attacca_packed& packed = arguments.packed;
  const auto blocks = [](int32_t extent) { return extent / kBlock + (extent % kBlock != 0); };
  Weights weights{};
  weights.packed = static_cast<const char*>(arguments.b.pointer);
  weights.scales_at = packed.scales_at;
  weights.zeros_at = packed.zeros_at;
  weights.blocks_n = blocks(arguments.n);
  weights.blocks_k = blocks(arguments.k);
  if (kScaleBits == 8) weights.blocks_k += weights.blocks_k % 2;
  weights.groups = packed.groups;
  // With one group, every block's number shifted by 31 is 0.
  weights.group_shift = packed.group == 0 ? 31 : 0;
  while (packed.group > kBlock << weights.group_shift) ++weights.group_shift;
  weights.zero = packed.zero;
  weights.has_zeros = packed.has_zeros;
  return weights;
}

}  // namespace attacca_packed_weights
