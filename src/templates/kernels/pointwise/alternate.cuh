// Loads full operands 0 and 1 of a chunk, and its row vectors. Either two may be alternate columns
// of one matrix or vector (alternate.hpp).
#pragma once

#include "common/bytes.cuh"
#include "common/epilogue.cuh"
#include "pointwise/alternate.hpp"

namespace attacca_pointwise {

// Only slots 0 and 1 may alternate: products take the first slots. If loads of all slots depended
// on each other, ptxas could not remove those that the hole does not read.
constexpr bool kAlternates = kFullBits[0] == 16 && kFullBits[1] == 16;

#ifdef ATTACCA_DEVICE_CODE

// Alternate columns: puts the first half of the words into slot 0, the second half into slot 1.
template <bool WHOLE>
__device__ __forceinline__ void load_first_slots(const EpilogueOperands& operands,
                                                 const Alternate& alternate, int32_t batch,
                                                 int32_t row, int32_t column, int valid,
                                                 ChunkInputs& inputs) {
  if (kAlternates && alternate.words.pointer) {
    const Chunk<32> words = load_chunk<32>(
        alternate.words, WHOLE ? kAccessChunks : alternate.access, batch, row, column, valid);
#pragma unroll
    for (int i = 0; i < kChunk / 2; ++i) {
      inputs.full0.word[i] = words.word[i];
      inputs.full1.word[i] = words.word[i + kChunk / 2];
    }
  } else {
    load_full<0, WHOLE>(operands, batch, row, column, valid, inputs.full0);
    load_full<1, WHOLE>(operands, batch, row, column, valid, inputs.full1);
  }
}

// Separates the elements of the two slots. Called after all loads, so that none waits for another.
__device__ __forceinline__ void separate_alternate(const Alternate& alternate,
                                                   ChunkInputs& inputs) {
  if (!kAlternates || !alternate.words.pointer) return;
  uint32_t words[kChunk];
#pragma unroll
  for (int i = 0; i < kChunk / 2; ++i) {
    words[i] = inputs.full0.word[i];
    words[i + kChunk / 2] = inputs.full1.word[i];
  }
#pragma unroll
  for (int i = 0; i < kChunk / 2; ++i) {
    inputs.full0.word[i] = choose_bytes(words[2 * i], words[2 * i + 1], alternate.half[0]);
    inputs.full1.word[i] = choose_bytes(words[2 * i], words[2 * i + 1], alternate.half[1]);
  }
}

// Loads both row slots. Alternate columns: puts the words into slot 0.
template <bool WHOLE>
__device__ __forceinline__ void load_alternate_rows(const EpilogueOperands& operands,
                                                    const Alternate& alternate, int32_t batch,
                                                    int32_t column, int valid,
                                                    ChunkInputs& inputs) {
  if (!alternate.words.pointer) {
    load_rows<WHOLE>(operands, batch, column, valid, inputs);
    return;
  }
  const Chunk<32> words = load_chunk<32>(alternate.words, WHOLE ? kAccessChunks : alternate.access,
                                         batch, 0, column, valid);
#pragma unroll
  for (int i = 0; i < kChunk; ++i) inputs.row[0][i] = words.word[i];
}

__device__ __forceinline__ void separate_alternate_rows(const Alternate& alternate,
                                                        ChunkInputs& inputs) {
  if (!alternate.words.pointer) return;
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    const uint32_t word = inputs.row[0][i];
#pragma unroll
    for (int slot = 0; slot < kRows; ++slot)
      inputs.row[slot][i] = choose_bytes(word, 0, (alternate.half[slot] & 0xff) | 0x4400);
  }
}

#endif  // ATTACCA_DEVICE_CODE

}  // namespace attacca_pointwise
