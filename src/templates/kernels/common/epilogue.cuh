// The epilogue of a chunk, for all kernels that finish whole chunks: loads the operands, calls the
// hole for each of the four pairs, stores the results.
#pragma once

#include "common/chunk.cuh"
#include "common/hole.cuh"
#include "common/maximum.cuh"

// The epilogue's operands in a kernel's parameters, each with its access (common/chunk.cuh).
struct EpilogueOperands {
  attacca_operand result[2], full[4];
  attacca_vector row[2], column[2];
  int32_t result_access[2], full_access[4], row_access[2];
  attacca_hole_context context;
  uint32_t* maximum;  // nullptr: none
};

// Host side: makes them from the caller's arguments.
inline EpilogueOperands epilogue_operands(const attacca_gemm_arguments& arguments) {
  EpilogueOperands all{};
  for (int i = 0; i < kResults; ++i) {
    all.result[i] = arguments.result[i];
    all.result_access[i] = chunk_access(arguments.result[i], kResultBits[i]);
  }
  for (int i = 0; i < kFulls; ++i) {
    all.full[i] = arguments.full[i];
    all.full_access[i] = chunk_access(arguments.full[i], kFullBits[i]);
  }
  for (int i = 0; i < kRows; ++i) {
    all.row[i] = arguments.row[i];
    all.row_access[i] = vector_access(arguments.row[i]);
  }
  for (int i = 0; i < kColumns; ++i) all.column[i] = arguments.column[i];
  all.context = arguments.context;
  all.maximum = kMaxima > 0 ? static_cast<uint32_t*>(arguments.maximum) : nullptr;
  return all;
}

// Host side: whether `columns` is a multiple of kChunk and every operand allows kAccessChunks. Full
// slots before `first_full` and row slots before `first_row` are not considered.
inline bool by_whole_chunks(const EpilogueOperands& all, int32_t columns, int first_full = 0,
                            int first_row = 0) {
  const auto whole = [](const void* pointer, int32_t access) {
    return !pointer || access == kAccessChunks;
  };
  bool every = columns % kChunk == 0;
  for (int i = 0; i < kResults; ++i)
    every = every && whole(all.result[i].pointer, all.result_access[i]);
  for (int i = first_full; i < kFulls; ++i)
    every = every && whole(all.full[i].pointer, all.full_access[i]);
  for (int i = first_row; i < kRows; ++i)
    every = every && whole(all.row[i].pointer, all.row_access[i]);
  return every;
}

#ifdef ATTACCA_DEVICE_CODE

// What the epilogue of the chunk at (batch, row, column) reads.
struct ChunkInputs {
  Chunk<kFullBits[0]> full0;
  Chunk<kFullBits[1]> full1;
  Chunk<kFullBits[2]> full2;
  Chunk<kFullBits[3]> full3;
  uint32_t row[kRows ? kRows : 1][kChunk];
  uint32_t column[kColumns ? kColumns : 1];
};

// WHOLE, here and below: by_whole_chunks() holds, so every chunk is whole and accessed at once.
template <int SLOT, bool WHOLE = false>
__device__ __forceinline__ void load_full(const EpilogueOperands& operands, int32_t batch,
                                          int32_t row, int32_t column, int valid,
                                          Chunk<kFullBits[SLOT]>& chunk) {
  constexpr int kBits = kFullBits[SLOT];
  if constexpr (SLOT < kFulls) {
    // An unused slot has no pointer.
    if (operands.full[SLOT].pointer) {
      chunk =
          load_chunk<kBits>(operands.full[SLOT], WHOLE ? kAccessChunks : operands.full_access[SLOT],
                            batch, row, column, valid);
    } else {
#pragma unroll
      for (uint32_t& word : chunk.word) word = 0;
    }
  }
}

template <bool WHOLE = false>
__device__ __forceinline__ void load_rows(const EpilogueOperands& operands, int32_t batch,
                                          int32_t column, int valid, ChunkInputs& inputs) {
#pragma unroll
  for (int i = 0; i < kRows; ++i)
    load_vector_chunk(operands.row[i], WHOLE ? kAccessChunks : operands.row_access[i], batch,
                      column, valid, inputs.row[i]);
}

__device__ __forceinline__ void load_columns(const EpilogueOperands& operands, int32_t batch,
                                             int32_t row, ChunkInputs& inputs) {
#pragma unroll
  for (int i = 0; i < kColumns; ++i)
    inputs.column[i] = load_vector_element(operands.column[i], batch, row);
}

template <bool WHOLE = false>
__device__ __forceinline__ void load_inputs(const EpilogueOperands& operands, int32_t batch,
                                            int32_t row, int32_t column, int valid,
                                            ChunkInputs& inputs) {
  if constexpr (WHOLE) valid = kChunk;
  load_full<0, WHOLE>(operands, batch, row, column, valid, inputs.full0);
  load_full<1, WHOLE>(operands, batch, row, column, valid, inputs.full1);
  load_full<2, WHOLE>(operands, batch, row, column, valid, inputs.full2);
  load_full<3, WHOLE>(operands, batch, row, column, valid, inputs.full3);
  load_rows<WHOLE>(operands, batch, column, valid, inputs);
  load_columns(operands, batch, row, inputs);
}

// Takes the words of a pair from a chunk.
template <int BITS>
__device__ __forceinline__ void take_pair(const Chunk<BITS>& chunk, int pair,
                                          uint32_t (&words)[2]) {
  if constexpr (BITS == 16) {
    words[0] = chunk.word[pair];
  } else if constexpr (BITS == 32) {
    words[0] = chunk.word[2 * pair];
    words[1] = chunk.word[2 * pair + 1];
  }
}

// A chunk's accumulators of every set, raw bits, one element a word. Not read if the hole takes
// none.
struct ChunkAccumulators {
  uint32_t set[kAccumulators ? kAccumulators : 1][kChunk];
};

__device__ __forceinline__ HoleArguments pair_arguments(const ChunkInputs& inputs, int pair,
                                                        const ChunkAccumulators& accumulators) {
  HoleArguments arguments;
#pragma unroll
  for (int s = 0; s < kAccumulators; ++s) {
    arguments.acc[s][0] = accumulators.set[s][2 * pair];
    arguments.acc[s][1] = accumulators.set[s][2 * pair + 1];
  }
  if constexpr (kFulls > 0) take_pair<kFullBits[0]>(inputs.full0, pair, arguments.full[0]);
  if constexpr (kFulls > 1) take_pair<kFullBits[1]>(inputs.full1, pair, arguments.full[1]);
  if constexpr (kFulls > 2) take_pair<kFullBits[2]>(inputs.full2, pair, arguments.full[2]);
  if constexpr (kFulls > 3) take_pair<kFullBits[3]>(inputs.full3, pair, arguments.full[3]);
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    arguments.row[i][0] = inputs.row[i][2 * pair];
    arguments.row[i][1] = inputs.row[i][2 * pair + 1];
  }
#pragma unroll
  for (int i = 0; i < kColumns; ++i) arguments.column[i] = inputs.column[i];
  return arguments;
}

// Puts a pair's words of result SLOT into the result's chunk.
template <int SLOT>
__device__ __forceinline__ void keep_pair(const uint32_t* words, int pair,
                                          Chunk<kResultBits[SLOT]>& chunk) {
  constexpr int kWords = hole_words(kResultBits[SLOT]);
  constexpr int kFirst = SLOT == 0 ? 0 : hole_words(kResultBits[0]);
  if constexpr (kResultBits[SLOT] == 8) {
    const uint32_t half = words[kFirst] & 0xffff;
    chunk.word[pair / 2] = pair % 2 == 0 ? half : chunk.word[pair / 2] | half << 16;
  } else {
#pragma unroll
    for (int i = 0; i < kWords; ++i) chunk.word[pair * kWords + i] = words[kFirst + i];
  }
}

template <int SLOT, bool WHOLE>
__device__ __forceinline__ void store_result(const EpilogueOperands& operands, int32_t batch,
                                             int32_t row, int32_t column, int valid,
                                             const Chunk<kResultBits[SLOT]>& chunk) {
  if constexpr (SLOT < kResults)
    store_chunk<kResultBits[SLOT]>(operands.result[SLOT],
                                   WHOLE ? kAccessChunks : operands.result_access[SLOT], batch, row,
                                   column, valid, chunk);
}

// The largest maximum that the hole returned to this thread, as bits: the bits of f32 numbers that
// are not negative are ordered as the numbers are, with NaN above all.
struct Largest {
  uint32_t bits = 0;
};

// REQUIRES: all lanes of the warp call it.
__device__ __forceinline__ void merge_largest(const EpilogueOperands& operands,
                                              const Largest& largest) {
  if constexpr (kMaxima > 0)
    if (operands.maximum) merge_maximum(operands.maximum, largest.bits);
}

// Calls the hole for the chunk's first PAIRS pairs and stores the results. Pairs beyond the end of
// the row are computed too, which epilogue/hole.hpp allows, and not stored: without branches
// between the calls, their latencies overlap.
template <bool WHOLE = false, int PAIRS = kChunk / 2>
__device__ __forceinline__ void finish_chunk(const EpilogueOperands& operands, int32_t batch,
                                             int32_t row, int32_t column, int valid,
                                             const ChunkInputs& inputs,
                                             const ChunkAccumulators& accumulators,
                                             Largest& largest) {
  if constexpr (WHOLE) valid = kChunk;
  Chunk<kResultBits[0]> result0;
  Chunk<kResultBits[1]> result1;
#pragma unroll
  for (int pair = 0; pair < PAIRS; ++pair) {
    const HoleArguments arguments = pair_arguments(inputs, pair, accumulators);
    const int32_t first = column + 2 * pair;
    const attacca_results results = call_hole(arguments, row, first, batch, &operands.context);
    keep_pair<0>(results.word, pair, result0);
    keep_pair<1>(results.word, pair, result1);
    if constexpr (kMaxima > 0)
      if (2 * pair < valid) largest.bits = max(largest.bits, results.word[kMaximumWord]);
  }
  store_result<0, WHOLE>(operands, batch, row, column, valid, result0);
  store_result<1, WHOLE>(operands, batch, row, column, valid, result1);
}

#endif  // ATTACCA_DEVICE_CODE
