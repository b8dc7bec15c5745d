// The feed for weights of s8 or u8 as they lie in memory. TMA copies boxes of 64 columns by 64
// values of k; a thread reads its part of wgmma's register operand and widens it to A's type, which
// is exact.
//
// B as (N, K): a row of a box has 64 values of k of a column. A thread reads pairs of them.
// B as (K, N): a row of a box has 64 columns. Transposing ldmatrix takes two columns for one
// element of 16 bits, so a thread gets two values of k of two neighbouring columns. They become the
// rows r and r + 8 of wgmma's operand: column 2 r of a warp is row r, column 2 r + 1 is row r + 8
// (fragment_column()).
//
// Rows of a box have 64 bytes. TMA exchanges their 16-byte pieces: piece p of row r lies at place
// p ^ (r / 2 % 4), so that eight rows lie in different banks.
#pragma once

#include <type_traits>

#include "common/prefetch.cuh"
#include "packed/widening.cuh"
#include "wide/instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// Zero, as widen_chosen() takes it.
__device__ __forceinline__ uint32_t negated_zero(const Weights::Params& weights) {
  const uint32_t zero = weights.flip & 0xff;
  return attacca_packed_weights::negated_zeros(zero, zero).low;
}

// Of B as (N, K).
struct ColumnsWidener {
  const char* memory;
  int own;  // this thread's first pair in a stage
  uint32_t flip, zeros;
  int stage_at = 0;

  __device__ __forceinline__ explicit ColumnsWidener(const Consumer& consumer)
      : memory(consumer.memory),
        flip(consumer.params.weights.flip),
        zeros(negated_zero(consumer.params.weights)) {
    const int row = consumer.warp % 4 * 16 + consumer.lane / 4;
    own = kABytes + consumer.first_part() * Weights::kBoxBytes + row * Weights::kBox +
          row / 2 % 4 * 16 + consumer.lane % 4 * 2;
  }

  __device__ __forceinline__ void fetch(int stage) { stage_at = own + stage * kStageBytes; }

  // REQUIRES: no product reads `to` any more.
  __device__ __forceinline__ void widen(int step, Fragments& to) const {
    // A step's 16 values of k are one piece. Rows 8 apart have their pieces at the same places.
    const char* const from = memory + (stage_at ^ (step * 16));
#pragma unroll
    for (int part = 0; part < kGroupParts; ++part)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t pair = *reinterpret_cast<const uint16_t*>(
            from + part * Weights::kBoxBytes + i % 2 * 8 * Weights::kBox + i / 2 * 8);
        to.of[part][i] = attacca_packed_weights::widen_chosen(pair ^ flip, 0x4140, zeros);
        pin(to.of[part][i]);
      }
  }
};

// Of B as (K, N).
struct RowsWidener {
  static constexpr int kLoads = kSteps / 2;  // of a box: each covers two steps

  uint32_t own;  // the row that this lane addresses, in the first stage
  uint32_t flip, zeros;
  uint32_t words[kGroupParts][kLoads][4];

  __device__ __forceinline__ explicit RowsWidener(const Consumer& consumer)
      : flip(consumer.params.weights.flip), zeros(negated_zero(consumer.params.weights)) {
    const int row = consumer.lane, piece = consumer.warp % 4 ^ row / 2 % 4;
    own = consumer.shared.b(0, 0) + consumer.first_part() * Weights::kBoxBytes +
          row * Weights::kBox + piece * 16;
  }

  __device__ __forceinline__ void fetch(int stage) {
#pragma unroll
    for (int part = 0; part < kGroupParts; ++part)
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        load_matrices_transposed(
            words[part][i],
            own + stage * kStageBytes + part * Weights::kBoxBytes + i * 32 * Weights::kBox);
  }

  // REQUIRES: no product reads `to` any more.
  __device__ __forceinline__ void widen(int step, Fragments& to) const {
#pragma unroll
    for (int part = 0; part < kGroupParts; ++part)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t word = words[part][step / 2][step % 2 * 2 + i / 2] ^ flip;
        to.of[part][i] =
            attacca_packed_weights::widen_chosen(word, i % 2 == 0 ? 0x4240 : 0x4341, zeros);
        pin(to.of[part][i]);
      }
  }
};

struct BytesLoads {
  // Weights may be the result of the preceding kernel.
  static constexpr bool kEarly = false;

  static __device__ __forceinline__ void prefetch_maps(const Params& params) {
    prefetch_map(&params.b[0]);
  }

  static __device__ __forceinline__ void begin_stage(const Load& load, bool) {
    barrier_expect(load.full, kStageBytes);
  }

  static __device__ __forceinline__ void load_weights(const Load& load) {
    const uint32_t to = load.shared.b(load.stage, 0);
    if constexpr (kBKMajor) {
      copy_box(to, &load.params.b[0], load.full, load.k, load.at.n, load.at.batch);
    } else {
#pragma unroll
      for (int i = 0; i < Weights::kBoxes; ++i)
        copy_box(to + i * Weights::kBoxBytes, &load.params.b[0], load.full,
                 load.at.n + i * Weights::kBox, load.k, load.at.batch);
    }
  }
};

using BytesFeed =
    WideningFeed<BytesLoads, std::conditional_t<kBKMajor, ColumnsWidener, RowsWidener>>;

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
