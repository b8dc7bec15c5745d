// Widens 4-bit codes with scales of u8 to s8, for wgmma's A in registers. Scale and zero point make
// four neighbouring codes of a row weights by one multiply-add and one exclusive or: each byte of
// code * scale + (128 - zero * scale) is a weight increased by 128, so no byte carries into the
// next one.
#pragma once

#include "packed/feed.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// What a row's codes are multiplied by, and what is added to all four bytes.
struct RowFactors {
  uint32_t scale, bias;
};

__device__ __forceinline__ RowFactors row_factors(uint32_t scale, uint32_t zero) {
  return {scale, (128 - zero * scale) * 0x01010101};
}

// `codes`: one in each byte.
__device__ __forceinline__ uint32_t whole_weights(uint32_t codes, const RowFactors& row) {
  return (codes * row.scale + row.bias) ^ 0x80808080;
}

// Reads a thread's codes of a stage and widens them.
struct WholeWidener {
  const Weights::Params& weights;
  const char* memory;  // B of the first stage
  int first;           // the warpgroup's first block of columns of the tile
  int warp, lane;      // in the warpgroup
  uint4 codes[kGroupParts][Weights::kBlocksK];
  RowFactors low[kGroupParts], high[kGroupParts];  // of rows lane / 4 and lane / 4 + 8

  __device__ __forceinline__ explicit WholeWidener(const Consumer& consumer)
      : weights(consumer.params.weights),
        memory(consumer.memory + kABytes),
        first(consumer.first_part()),
        warp(consumer.warp % 4),
        lane(consumer.lane) {}

  __device__ __forceinline__ void fetch(int stage) {
    using namespace attacca_packed_weights;
    const char* const from = memory + stage * kStageBytes;
    // The scales, or zero points, of a lane's two rows are neighbours.
    const int entry = lane / 4 * 8 + warp * 2;
    const auto two_of = [&](int at) {
      return uint32_t{*reinterpret_cast<const uint16_t*>(from + at + entry)};
    };
#pragma unroll
    for (int part = 0; part < kGroupParts; ++part) {
      const int block = first + part;
#pragma unroll
      for (int i = 0; i < Weights::kBlocksK; ++i)
        codes[part][i] = *reinterpret_cast<const uint4*>(
            from + (block * Weights::kBlocksK + i) * kBlockBytes + warp * 512 + lane * 16);
      const uint32_t scales = two_of(Weights::kScalesAt + block * kBlock);
      uint32_t zeros = weights.zero * 0x0101u;
      if (weights.has_zeros) zeros = two_of(Weights::kZerosAt + block * kBlock);
      low[part] = row_factors(scales & 0xff, zeros & 0xff);
      high[part] = row_factors(scales >> 8, zeros >> 8);
    }
  }

  // REQUIRES: no product reads `to` any more.
  __device__ __forceinline__ void widen(int step, Fragments& to) const {
#pragma unroll
    for (int part = 0; part < kGroupParts; ++part) {
      const uint4& four = codes[part][step / 2];
      const uint32_t words[2] = {step % 2 == 0 ? four.x : four.z, step % 2 == 0 ? four.y : four.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t word = words[i / 2];
        to.of[part][i] = i % 2 == 0 ? whole_weights(word & 0x0f0f0f0f, low[part])
                                    : whole_weights(word >> 4 & 0x0f0f0f0f, high[part]);
        pin(to.of[part][i]);
      }
    }
  }
};

using WholeFeed = WideningFeed<PackedLoads, WholeWidener>;

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
