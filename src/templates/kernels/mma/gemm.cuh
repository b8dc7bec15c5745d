// A GEMM for sm_80 and later. Each block computes one tile: cp.async copies A and B to several
// stages in shared memory, mma.sync multiplies them, and the epilogue follows. The accumulators go
// to the epilogue in slices through shared memory, so that operands and results move as whole
// chunks of rows, which the layout of mma.sync's fragments would not allow.
#pragma once

#include "mma/multiply.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_mma {

struct TilePlace {
  int m, n;  // the tile's first element
};

__device__ __forceinline__ TilePlace tile_place(const Params& params, int block) {
  const TileIndex at = tile_at(params.order, block);
  return {at.m * kTileM, at.n * kTileN};
}

// The matrices of one batch, and this block's tile of the result.
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

__device__ __forceinline__ void copy_stage(const Params& params, const Block& block,
                                           uint32_t shared, int k_tile) {
  const int k = k_tile * kTileK, stage = k_tile % kStages;
  copy_tile<kTileM, kTileK>(stage_a(shared, stage), block.a, params.a.row_stride, params.m,
                            params.k, block.at.m, k);
#pragma unroll
  for (int s = 0; s < kSets; ++s) {
    if constexpr (kBKMajor) {
      copy_tile<kTileN, kTileK>(stage_b(shared, stage, s), block.b[s], params.b[s].row_stride,
                                params.n, params.k, block.at.n, k);
    } else {
      copy_tile<kTileK, kTileN>(stage_b(shared, stage, s), block.b[s], params.b[s].k_stride,
                                params.k, params.n, k, block.at.n);
    }
  }
}

// Multiplies while up to kStages - 1 further tiles are being copied by cp.async.
__device__ __forceinline__ void multiply_staged(const Params& params, const Block& block,
                                                const Warp& warp, char* shared, Accumulators& sum) {
  const uint32_t base = shared_address(shared);
  const auto load = [&](int tile, int step, Fragments& to) {
    load_fragments(stage_a(base, tile % kStages), stage_b(base, tile % kStages), kSetsApart, warp,
                   step, to);
  };
#pragma unroll
  for (int tile = 0; tile < kStages - 1; ++tile) {
    if (tile < block.k_tiles) copy_stage(params, block, base, tile);
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
    if (ahead < block.k_tiles) copy_stage(params, block, base, ahead);
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

// Writes one slice to shared memory. A lane's values 0 and 1 of a fragment are neighbours in a row,
// values 2 and 3 lie 8 rows below (PTX ISA, accumulators of mma.m16n8).
__device__ __forceinline__ void keep_slice(const Warp& warp, const Accumulators& sum, int slice,
                                           uint32_t* shared) {
  const int row = warp.m / kWarpM * 16 + warp.lane / 4;
  const int column = warp.n + warp.lane % 4 * 2;
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i) {
    // Registers cannot be indexed at run time, so each slice has its own code.
    if (i != slice) continue;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j) {
        const Sum(&value)[4] = sum.fragment[s][i][j];
        uint32_t* at = shared + (s * kSliceRows + row) * kSlicePitch + column + j * 8;
        *reinterpret_cast<uint2*>(at) = make_uint2(raw_bits(value[0]), raw_bits(value[1]));
        *reinterpret_cast<uint2*>(at + 8 * kSlicePitch) =
            make_uint2(raw_bits(value[2]), raw_bits(value[3]));
      }
    }
  }
}

// Loads the chunk of eight values at `from`.
__device__ __forceinline__ void load_values(const uint32_t* from, uint32_t (&to)[kChunk]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint4 four = reinterpret_cast<const uint4*>(from)[i];
    to[i * 4] = four.x;
    to[i * 4 + 1] = four.y;
    to[i * 4 + 2] = four.z;
    to[i * 4 + 3] = four.w;
  }
}

__device__ __forceinline__ void finish_slice(const Params& params, const TilePlace& at, int batch,
                                             int slice, const uint32_t* shared, Largest& largest) {
  constexpr int kRowChunks = kTileN / kChunk;
#pragma unroll 1
  for (int chunk = threadIdx.x; chunk < kSliceRows * kRowChunks; chunk += kThreads) {
    const int line = chunk / kRowChunks, place = chunk % kRowChunks * kChunk;
    const int row = at.m + line / 16 * kWarpM + slice * 16 + line % 16, column = at.n + place;
    const int valid = row < params.m ? min(kChunk, params.n - column) : 0;
    if (valid <= 0) continue;
    ChunkInputs inputs;
    load_inputs(params.operands, batch, row, column, valid, inputs);
    ChunkAccumulators accumulators;
#pragma unroll
    for (int s = 0; s < kSets; ++s)
      load_values(shared + (s * kSliceRows + line) * kSlicePitch + place, accumulators.set[s]);
    finish_chunk(params.operands, batch, row, column, valid, inputs, accumulators, largest);
  }
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
      multiply_staged(params, block, warp, shared, sum);
    }
    uint32_t* slice_values = reinterpret_cast<uint32_t*>(shared);
#pragma unroll 1
    for (int slice = 0; slice < kFragmentsM; ++slice) {
      __syncthreads();
      keep_slice(warp, sum, slice, slice_values);
      __syncthreads();
      finish_slice(params, block.at, batch, slice, slice_values, largest);
    }
    __syncthreads();
  }
  merge_largest(params.operands, largest);
}

}  // namespace attacca_mma

#endif  // ATTACCA_DEVICE_CODE
