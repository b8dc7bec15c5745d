// The pointwise kernel: no product; it calls the hole for all elements [batch, m, n].
//
// Chunks are numbered row by row, so that short rows fill a block as well as long ones. A block
// takes kThreads * kAtOnce consecutive chunks, or fewer if there would be too few blocks for the
// device; neighbouring threads take neighbouring chunks.
#pragma once

#include "common/epilogue.cuh"
#include "pointwise/alternate.cuh"
#include "pointwise/divisor.hpp"
#include "pointwise/instructions.cuh"

namespace attacca_pointwise {

constexpr int kThreads = 256;
// Blocks that a multiprocessor should hold, which bounds the registers.
constexpr int kBlocksAnSm = 2;
// Chunks that a thread loads before it computes: bytes in flight hide the memory's latency.
// Operands that the hole does not read are not loaded.
constexpr int kAtOnce = kFullBits[0] + kFullBits[1] + kFullBits[2] + kFullBits[3] <= 96 ? 2 : 1;
constexpr int kBlockChunks = kThreads * kAtOnce;
// The fewest chunks that a block takes: its other threads do nothing.
constexpr int kFewestChunks = kThreads / 2;

struct Params {
  EpilogueOperands operands;
  Alternate alternate, alternate_rows;
  int32_t block_chunks;
  // Whether all chunks are whole and accessed at once, and their numbers fit into 31 bits. The code
  // for this case is short, which small problems need: each launch fetches it from memory.
  int32_t whole;
  int32_t rows, columns;
  int64_t chunks;
  // Divide by the chunks of a row, and by the rows of a batch.
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

// `end`: the end of the block's chunks.
template <bool WHOLE>
__device__ __forceinline__ Place place_of(const Params& params, int64_t chunk, int64_t end) {
  if (chunk >= end) return {0, 0, 0, 0};
  const auto divided = [](int64_t x, const Divisor& by) -> int64_t {
    return WHOLE ? divide(static_cast<uint32_t>(x), by) : divide_long(x, by);
  };
  const int64_t line = divided(chunk, params.row_chunks);
  const int64_t batch = divided(line, params.batch_rows);
  Place place;
  place.batch = static_cast<int32_t>(batch);
  place.row = static_cast<int32_t>(line - batch * params.rows);
  place.column = static_cast<int32_t>(chunk - line * params.row_chunks.divisor) * kChunk;
  place.valid = WHOLE ? kChunk : min(kChunk, params.columns - place.column);
  return place;
}

template <bool WHOLE>
__device__ __forceinline__ void load_place(const Params& params, const Place& at,
                                           ChunkInputs& inputs) {
  const EpilogueOperands& operands = params.operands;
  const int valid = WHOLE ? kChunk : at.valid;
  load_first_slots<WHOLE>(operands, params.alternate, at.batch, at.row, at.column, valid, inputs);
  load_full<2, WHOLE>(operands, at.batch, at.row, at.column, valid, inputs.full2);
  load_full<3, WHOLE>(operands, at.batch, at.row, at.column, valid, inputs.full3);
  load_alternate_rows<WHOLE>(operands, params.alternate_rows, at.batch, at.column, valid, inputs);
  load_columns(operands, at.batch, at.row, inputs);
}

template <bool WHOLE>
__device__ __forceinline__ void finish_place(const Params& params, const Place& at,
                                             ChunkInputs& inputs, Largest& largest) {
  const ChunkAccumulators no_accumulators = {};
  separate_alternate(params.alternate, inputs);
  separate_alternate_rows(params.alternate_rows, inputs);
  finish_chunk<WHOLE>(params.operands, at.batch, at.row, at.column, at.valid, inputs,
                      no_accumulators, largest);
}

// Computes AT_ONCE of this thread's chunks, from `first` on.
template <bool WHOLE, int AT_ONCE>
__device__ __forceinline__ void run_chunks(const Params& params, int64_t first, int64_t end,
                                           Largest& largest) {
  Place place[AT_ONCE];
  ChunkInputs inputs[AT_ONCE];
#pragma unroll
  for (int i = 0; i < AT_ONCE; ++i)
    place[i] = place_of<WHOLE>(params, first + i * kThreads + static_cast<int>(threadIdx.x), end);
  wait_for_previous_kernel();
#pragma unroll
  for (int i = 0; i < AT_ONCE; ++i)
    if (place[i].valid > 0) load_place<WHOLE>(params, place[i], inputs[i]);
#pragma unroll
  for (int i = 0; i < AT_ONCE; ++i)
    if (place[i].valid > 0) finish_place<WHOLE>(params, place[i], inputs[i], largest);
}

__device__ __forceinline__ void run(const Params& params) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * params.block_chunks;
  const int64_t end = min(first + params.block_chunks, params.chunks);
  Largest largest;
  if (params.whole) {
    run_chunks<true, kAtOnce>(params, first, end, largest);
  } else {
#pragma unroll 1
    for (int i = 0; i < kAtOnce; ++i)
      run_chunks<false, 1>(params, first + i * kThreads, end, largest);
  }
  merge_largest(params.operands, largest);
}

#endif  // ATTACCA_DEVICE_CODE

}  // namespace attacca_pointwise
