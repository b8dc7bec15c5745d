// The mma kernel for grouped products, for sm_80 and later: each group of A's rows is multiplied by
// its own matrix. Each block computes every gridDim.x-th tile of the table of the groups. While one
// block finishes a tile, others of its multiprocessor multiply.
#pragma once

#include "grouped/table.cuh"
#include "grouped_mma/copies.cuh"
#include "mma/finish.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_grouped_mma {

// Writes a slice as attacca_mma::keep_slice does, where the sums of the two sets alternate: those
// of B, the odd columns if `odd_first` is 1, and of B1.
__device__ __forceinline__ void keep_alternate(const attacca_mma::Warp& warp,
                                               const attacca_mma::Accumulators& sum, int slice,
                                               int odd_first, uint32_t* shared) {
  using namespace attacca_mma;
  const int row = warp.m / kWarpM * 16 + warp.lane / 4;
  uint32_t* even = shared + (odd_first * kSliceRows + row) * kSlicePitch + warp.lane % 4;
  uint32_t* odd = shared + ((1 - odd_first) * kSliceRows + row) * kSlicePitch + warp.lane % 4;
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i) {
    if (i != slice) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j) {
        const Sum(&value)[4] = sum.fragment[half][i][j];
        const int at = (half * kTileN + warp.n + j * 8) / 2;
        even[at] = raw_bits(value[0]);
        odd[at] = raw_bits(value[1]);
        even[at + 8 * kSlicePitch] = raw_bits(value[2]);
        odd[at + 8 * kSlicePitch] = raw_bits(value[3]);
      }
    }
  }
}

__device__ __forceinline__ void run(const Params& params, char* shared) {
  const attacca_mma::Warp warp = attacca_mma::this_warp();
  attacca_groups::Table<Params, kTileM, kMostGroups, kThreads> table(params, shared + kTableAt);
  const int tiles = table.count();
  Largest largest;
#pragma unroll 1
  for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    if (tile >= table.end_tile()) table.find(tile);
    const int begin = table.begin(), end = table.end(), group = table.group();
    TileOrder order = params.order;
    order.tiles_m = table.lines(begin, end);
    const TileIndex at = tile_at(order, tile - table.first_tile());
    const bool multiplied = group < params.weights.groups;
    // Of the epilogue's operands. Rows of no group have the last group's.
    const int batch = multiplied ? group : params.weights.groups - 1;
    Block block;
    block.at = {begin + at.m * kTileM, at.n * kTileN};
    block.k_tiles = multiplied ? (params.k + kTileK - 1) / kTileK : 0;
    block.a = params.a.pointer;
#pragma unroll
    for (int s = 0; s < attacca_mma::kSets; ++s)
      block.b[s] = params.b[s].pointer + group * params.b[s].batch_stride;
    attacca_mma::Accumulators sum = {};
    const Copies copies(params, block, multiplied ? end : 0, shared);
    multiply_staged(params, block, copies, warp, shared, sum);
    uint32_t* slice_values = reinterpret_cast<uint32_t*>(shared);
#pragma unroll 1
    for (int slice = 0; slice < attacca_mma::kFragmentsM; ++slice) {
      __syncthreads();
      if constexpr (kAlternate) {
        keep_alternate(warp, sum, slice, params.odd_first, slice_values);
      } else {
        keep_slice(warp, sum, slice, slice_values);
      }
      __syncthreads();
      finish_slice(params, block.at, end, batch, slice, slice_values, largest);
    }
    __syncthreads();
  }
  merge_largest(params.operands, largest);
}

}  // namespace attacca_grouped_mma

#endif  // ATTACCA_DEVICE_CODE
