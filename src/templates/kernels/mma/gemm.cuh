// A GEMM for sm_80 and later. Each block computes one tile: cp.async copies A and B to several
// stages in shared memory, mma.sync multiplies them, and the epilogue follows.
#pragma once

#include "mma/elements.cuh"
#include "mma/finish.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_mma {

__device__ __forceinline__ TilePlace tile_place(const Params& params, int block) {
  const TileIndex at = tile_at(params.order, block);
  return {at.m * kTileM, at.n * kTileN};
}

__device__ __forceinline__ void run(const Params& params, char* shared) {
  const Warp warp = this_warp();
  Block block;
  block.at = tile_place(params, blockIdx.x);
  block.k_tiles = (params.k + kTileK - 1) / kTileK;
  Largest largest;
  for (int batch = blockIdx.z; batch < params.batches; batch += gridDim.z) {
    block.a = params.a.pointer + batch * params.a.batch_stride;
#pragma unroll
    for (int s = 0; s < kSets; ++s)
      block.b[s] = params.b[s].pointer + batch * params.b[s].batch_stride;
    Accumulators sum = {};
    if constexpr (kAnyStrides) {
      multiply_elements(params, block, warp, shared, sum);
    } else {
      multiply_staged(params, block, PlainCopies(), warp, shared, sum);
    }
    uint32_t* slice_values = reinterpret_cast<uint32_t*>(shared);
#pragma unroll 1
    for (int slice = 0; slice < kFragmentsM; ++slice) {
      __syncthreads();
      keep_slice(warp, sum, slice, slice_values);
      __syncthreads();
      finish_slice(params, block.at, params.m, batch, slice, slice_values, largest);
    }
    __syncthreads();
  }
  merge_largest(params.operands, largest);
}

}  // namespace attacca_mma

#endif  // ATTACCA_DEVICE_CODE
