// The feed for packed weights (ir/packed/packed.hpp), which are wgmma's A, in registers. Codes are
// packed in the order of wgmma's fragments: a thread widens its codes to 16-bit numbers of A's type
// and multiplies them by their scale, which rounds each weight as the graph does.
#pragma once

#include "packed/widening.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

using attacca_packed_weights::Pair;

// Reads a thread's codes of a stage and widens them.
struct Widener {
  const Weights::Params& weights;
  const char* memory;  // B of the first stage
  int first;           // the warpgroup's first block of the tile
  int warp, lane;      // in the warpgroup
  uint4 codes[kGroupParts][attacca_packed_weights::kLoads];
  Pair scale[kGroupParts];  // f32 bits, or a 16-bit number twice
  Pair zeros[kGroupParts];

  __device__ __forceinline__ explicit Widener(const Consumer& consumer)
      : weights(consumer.params.weights),
        memory(consumer.memory + kABytes),
        first(consumer.first_part()),
        warp(consumer.warp % 4),
        lane(consumer.lane) {
#pragma unroll
    for (Pair& each : zeros)
      each = attacca_packed_weights::negated_zeros(weights.zero, weights.zero);
  }

  __device__ __forceinline__ void fetch(int stage) {
    using namespace attacca_packed_weights;
    const char* const from = memory + stage * kStageBytes;
    // The scales, or zero points, of a lane's two rows are neighbours.
    const int entry = lane / 4 * 8 + warp * 2;
#pragma unroll
    for (int part = 0; part < kGroupParts; ++part) {
      const int block = first + part;
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        codes[part][i] = *reinterpret_cast<const uint4*>(from + block * kBlockBytes +
                                                         (warp * kLoads + i) * 512 + lane * 16);
      const char* of_scale =
          from + Weights::kScalesAt + block * Weights::kBlockScaleBytes + entry * kScaleBytes;
      if constexpr (kScaleBits == 32) {
        const uint2 two = *reinterpret_cast<const uint2*>(of_scale);
        scale[part] = {two.x, two.y};
      } else {
        const uint32_t two = *reinterpret_cast<const uint32_t*>(of_scale);
        scale[part] = {choose_bytes(two, 0, 0x1010), choose_bytes(two, 0, 0x3232)};
      }
      if (weights.has_zeros) {
        const uint32_t two =
            *reinterpret_cast<const uint16_t*>(from + Weights::kZerosAt + block * kBlock + entry);
        zeros[part] = negated_zeros(two & 0xff, two >> 8);
      }
    }
  }

  // REQUIRES: no product reads `to` any more.
  __device__ __forceinline__ void widen(int step, Fragments& to) const {
    using namespace attacca_packed_weights;
#pragma unroll
    for (int part = 0; part < kGroupParts; ++part) {
      const uint4& four = codes[part][kLoads == 2 ? step / 2 : 0];
      const uint32_t words[4] = {four.x, four.y, four.z, four.w};
      attacca_packed_weights::widen(words + (kLoads == 2 ? step % 2 * 2 : step), zeros[part],
                                    to.of[part]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        to.of[part][i] = scaled(to.of[part][i], i % 2 == 0 ? scale[part].low : scale[part].high);
        pin(to.of[part][i]);
      }
    }
  }
};

struct PackedLoads {
  // No kernel writes packed weights, so their copies need not wait for the previous kernel.
  static constexpr bool kEarly = true;

  static __device__ __forceinline__ void prefetch_maps(const Params&) {}

  // Requests the weights of the first stages; returns the number of these stages.
  static __device__ __forceinline__ int load_early(const Params& params, const Shared& shared,
                                                   int column, const KRange& range) {
    const int stages = min(kStages, range.tiles());
#pragma unroll 1
    for (int i = 0; i < stages; ++i) {
      barrier_expect(shared.full(i), kABytes + stage_bytes(params));
      load_blocks(params, shared, column, i, range.begin + i * kTileK);
    }
    return stages;
  }

  // `early`: load_early() has requested the weights.
  static __device__ __forceinline__ void begin_stage(const Load& load, bool early) {
    if (early) return;
    barrier_expect(load.full, kABytes + stage_bytes(load.params));
    load_blocks(load.params, load.shared, load.at.n, load.stage, load.k);
  }
  static __device__ __forceinline__ void load_weights(const Load&) {}

 private:
  static __device__ __forceinline__ int stage_bytes(const Params& params) {
    return params.weights.has_zeros ? Weights::kUsedBytes : Weights::kZerosAt;
  }

  // Copies a stage's blocks of 64 columns of weights. Blocks beyond the last column are the last
  // block again.
  static __device__ __forceinline__ void load_blocks(const Params& params, const Shared& shared,
                                                     int column, int stage, int k) {
    using attacca_packed_weights::kBlock;
    using attacca_packed_weights::kBlockBytes;
    using attacca_packed_weights::kCodesAt;
    using attacca_packed_weights::kScaleBytes;
    const Weights::Params& weights = params.weights;
    const uint32_t to = shared.b(stage, 0), full = shared.full(stage);
    const int block_k = k / kBlock, group = block_k >> weights.group_shift;
#pragma unroll
    for (int i = 0; i < Weights::kBlocksN; ++i) {
      const int64_t block = min(column / kBlock + i, weights.blocks_n - 1);
      copy_bytes(to + i * Weights::kBlocksK * kBlockBytes,
                 weights.packed + kCodesAt + (block * weights.blocks_k + block_k) * kBlockBytes,
                 Weights::kBlocksK * kBlockBytes, full);
      const int64_t entry = (block * weights.groups + group) * kBlock;
      copy_bytes(to + Weights::kScalesAt + i * Weights::kBlockScaleBytes,
                 weights.packed + weights.scales_at + entry * kScaleBytes,
                 Weights::kBlockScaleBytes, full);
      if (weights.has_zeros)
        copy_bytes(to + Weights::kZerosAt + i * kBlock, weights.packed + weights.zeros_at + entry,
                   kBlock, full);
    }
  }
};

using PackedFeed = WideningFeed<PackedLoads, Widener>;

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
