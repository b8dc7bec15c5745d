// The pointwise kernel: no product, the hole alone over all elements [batch, m, n].
//
// Chunks are numbered row by row, so that short rows fill a block as well as long ones. A block
// takes kThreads * kAtOnce neighbouring chunks, neighbouring threads neighbouring chunks.
#pragma once

#include "common/epilogue.cuh"
#include "pointwise/divisor.hpp"

namespace attacca_pointwise {

constexpr int kThreads = 256;
// Blocks that an SM should hold: caps the registers.
constexpr int kBlocksAnSm = 2;
// Chunks that a thread loads before it computes: bytes in flight hide the memory's latency. What
// the hole does not read is not loaded at all.
constexpr int kAtOnce = kFullBits[0] + kFullBits[1] + kFullBits[2] + kFullBits[3] <= 96 ? 2 : 1;
constexpr int kBlockChunks = kThreads * kAtOnce;

struct Params {
  EpilogueOperands operands;
  int32_t rows, columns, batches;
  int64_t chunks;
  // Chunks a row, and rows.
  Divisor row_chunks, batch_rows;
};

#ifdef ATTACCA_DEVICE_CODE

__device__ __forceinline__ uint32_t divide(uint32_t x, const Divisor& by) {
  return (__umulhi(x, by.multiplier) + x) >> by.shift;
}

__device__ __forceinline__ int64_t divide_long(int64_t x, const Divisor& by) {
  return x < 0x80000000 ? divide(static_cast<uint32_t>(x), by) : x / by.divisor;
}

struct Place {
  int32_t batch, row, column;
  int valid;  // elements; 0: beyond the end
};

__device__ __forceinline__ Place place_of(const Params& params, int64_t chunk) {
  if (chunk >= params.chunks) return {0, 0, 0, 0};
  const int64_t line = divide_long(chunk, params.row_chunks);
  const int64_t batch = params.batches == 1 ? 0 : divide_long(line, params.batch_rows);
  Place place;
  place.batch = static_cast<int32_t>(batch);
  place.row = static_cast<int32_t>(line - batch * params.rows);
  place.column = static_cast<int32_t>(chunk - line * params.row_chunks.divisor) * kChunk;
  place.valid = min(kChunk, params.columns - place.column);
  return place;
}

__device__ __forceinline__ void run(const Params& params) {
  const ChunkAccumulators no_accumulators = {};
  Largest largest;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kBlockChunks; first < params.chunks;
       first += static_cast<int64_t>(gridDim.x) * kBlockChunks) {
    Place place[kAtOnce];
    ChunkInputs inputs[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      place[i] = place_of(params, first + i * kThreads + static_cast<int>(threadIdx.x));
      load_inputs(params.operands, place[i].batch, place[i].row, place[i].column, place[i].valid,
                  inputs[i]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (place[i].valid > 0)
        finish_chunk(params.operands, place[i].batch, place[i].row, place[i].column, place[i].valid,
                     inputs[i], no_accumulators, largest);
  }
  merge_largest(params.operands, largest);
}

#endif  // ATTACCA_DEVICE_CODE

}  // namespace attacca_pointwise
