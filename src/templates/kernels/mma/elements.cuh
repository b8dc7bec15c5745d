// The product of a tile of A and B of any strides and alignment.
#pragma once

#include "mma/staged.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_mma {

// Multiplies A and B of any strides: while one tile is multiplied, the next is loaded into
// registers.
__device__ __forceinline__ void multiply_elements(const Params& params, const Block& block,
                                                  const Warp& warp, char* shared,
                                                  Accumulators& sum) {
  const uint32_t base = shared_address(shared);
  ElementTile<kTileM> a;
  ElementTile<kTileN> b[kSets];
  const auto load = [&](int tile) {
    a.load(params.a, block.a, params.m, params.k, block.at.m, tile * kTileK);
#pragma unroll
    for (int s = 0; s < kSets; ++s)
      b[s].load(params.b[s], block.b[s], params.n, params.k, block.at.n, tile * kTileK);
  };
  const auto store = [&](int tile) {
    a.store(shared + (stage_a(base, tile % 2) - base), params.a.k_stride == 1);
#pragma unroll
    for (int s = 0; s < kSets; ++s)
      b[s].store(shared + (stage_b(base, tile % 2, s) - base), params.b[s].k_stride == 1);
  };
  if (block.k_tiles > 0) {
    load(0);
    store(0);
  }
  __syncthreads();
#pragma unroll 1
  for (int tile = 0; tile < block.k_tiles; ++tile) {
    const bool more = tile + 1 < block.k_tiles;
    if (more) load(tile + 1);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      Fragments now;
      load_fragments(stage_a(base, tile % 2), stage_b(base, tile % 2), kSetsApart, warp, step, now);
      multiply_fragments(now, sum);
    }
    if (more) store(tile + 1);
    __syncthreads();
  }
}

}  // namespace attacca_mma

#endif  // ATTACCA_DEVICE_CODE
