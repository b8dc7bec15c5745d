// The epilogue of a tile. The accumulators go through shared memory in slices, so that operands and
// results move as whole chunks of rows, which the layout of mma.sync's fragments would not allow.
#pragma once

#include "mma/staged.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_mma {

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

// `rows`: where the tile's rows end. By reference, so that a kernel's parameter is loaded where it
// is needed.
__device__ __forceinline__ void finish_slice(const Params& params, const TilePlace& at,
                                             const int32_t& rows, int batch, int slice,
                                             const uint32_t* shared, Largest& largest) {
  constexpr int kRowChunks = kTileN / kChunk;
#pragma unroll 1
  for (int chunk = threadIdx.x; chunk < kSliceRows * kRowChunks; chunk += kThreads) {
    const int line = chunk / kRowChunks, place = chunk % kRowChunks * kChunk;
    const int row = at.m + line / 16 * kWarpM + slice * 16 + line % 16, column = at.n + place;
    const int valid = row < rows ? min(kChunk, params.n - column) : 0;
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

}  // namespace attacca_mma

#endif  // ATTACCA_DEVICE_CODE
