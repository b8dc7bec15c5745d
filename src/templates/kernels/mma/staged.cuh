// The product of a tile by several stages in shared memory.
#pragma once

#include "mma/multiply.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_mma {

struct TilePlace {
  int m, n;  // the tile's first element
};

// The matrices that this block multiplies, and its tile of the result.
struct Block {
  const Element *a, *b[kSets];
  TilePlace at;
  int k_tiles;
};

__device__ __forceinline__ uint32_t stage_a(uint32_t shared, int stage) {
  return shared + stage * kStageABytes;
}
__device__ __forceinline__ uint32_t stage_b(uint32_t shared, int stage, int set = 0) {
  return shared + kStages * (kStageABytes + set * kStageBBytes) + stage * kStageBBytes;
}
constexpr int kSetsApart = kStages * kStageBBytes;

// Copies kTileK values of k of a tile's rows of A, and of its columns of B, to shared memory.
struct PlainCopies {
  static __device__ __forceinline__ void copy_a(const Params& params, const Block& block,
                                                uint32_t to, int k) {
    copy_tile<kTileM, kTileK>(to, block.a, params.a.row_stride, params.m, params.k, block.at.m, k);
  }
  static __device__ __forceinline__ void copy_b(const Params& params, const Block& block, int set,
                                                uint32_t to, int k) {
    if constexpr (kBKMajor) {
      copy_tile<kTileN, kTileK>(to, block.b[set], params.b[set].row_stride, params.n, params.k,
                                block.at.n, k);
    } else {
      copy_tile<kTileK, kTileN>(to, block.b[set], params.b[set].k_stride, params.k, params.n, k,
                                block.at.n);
    }
  }
};

template <class Copies>
__device__ __forceinline__ void copy_stage(const Params& params, const Block& block,
                                           const Copies& copies, uint32_t shared, int k_tile) {
  const int k = k_tile * kTileK, stage = k_tile % kStages;
  copies.copy_a(params, block, stage_a(shared, stage), k);
#pragma unroll
  for (int s = 0; s < kSets; ++s) copies.copy_b(params, block, s, stage_b(shared, stage, s), k);
}

// Multiplies while up to kStages - 1 further tiles are being copied by cp.async.
template <class Copies>
__device__ __forceinline__ void multiply_staged(const Params& params, const Block& block,
                                                const Copies& copies, const Warp& warp,
                                                char* shared, Accumulators& sum) {
  const uint32_t base = shared_address(shared);
  const auto load = [&](int tile, int step, Fragments& to) {
    load_fragments(stage_a(base, tile % kStages), stage_b(base, tile % kStages), kSetsApart, warp,
                   step, to);
  };
#pragma unroll
  for (int tile = 0; tile < kStages - 1; ++tile) {
    if (tile < block.k_tiles) copy_stage(params, block, copies, base, tile);
    commit_copies();
  }
  // Wait until all threads see tile 0.
  wait_copies<kStages - 2>();
  __syncthreads();
  Fragments fragments[2];
  static_assert(kSteps % 2 == 0);
  if (block.k_tiles > 0) load(0, 0, fragments[0]);
#pragma unroll 1
  for (int tile = 0; tile < block.k_tiles; ++tile) {
    // Copy to the stage of tile - 1, which no thread reads any more.
    const int ahead = tile + kStages - 1;
    if (ahead < block.k_tiles) copy_stage(params, block, copies, base, ahead);
    commit_copies();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      Fragments& next = fragments[(step + 1) % 2];
      if (step + 1 < kSteps) {
        load(tile, step + 1, next);
      } else {
        // Wait for the next tile, and until all threads have loaded their fragments of this one.
        wait_copies<kStages - 2>();
        __syncthreads();
        if (tile + 1 < block.k_tiles) load(tile + 1, 0, next);
      }
      multiply_fragments(fragments[step % 2], sum);
    }
  }
}

}  // namespace attacca_mma

#endif  // ATTACCA_DEVICE_CODE
