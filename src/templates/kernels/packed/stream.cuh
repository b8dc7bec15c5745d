// A warp's share of a product with packed weights. The warp reads blocks of 64 values of k of its
// own columns, widens them to A's type and multiplies them by panels of A, which the whole block
// shares.
//
// Blocks of k beyond the end are the last block again, multiplied by zeros of A.
#pragma once

#include "packed/panels.cuh"
#include "packed/widen.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_packed_weights {

struct Sums {
  float of[kFragments][kTokens][4];
};

// TOGETHER: consecutive blocks of k that share their scales. A warp sums their products before it
// scales them.
template <bool ZEROS, int TOGETHER>
struct Stream {
  static constexpr int kTurn = kWarpsK * TOGETHER;  // blocks of k that all warps multiply in a turn
  static constexpr int kRounds = kPanel / kTurn;    // turns for a panel
  static_assert(kPanel % kTurn == 0 && kDepth % TOGETHER == 0);
  static constexpr int kScaleWords = kFragments * kScaleBits / 16;
  struct Scales {
    uint32_t scale[kScaleWords];
    uint32_t zero[ZEROS ? kFragments / 2 : 1];
  };

  __device__ __forceinline__ Stream(const Params& params, const Part& part, char* memory)
      : params_(params),
        memory_(memory),
        base_(shared_address(memory)),
        panels_(params, part, base_) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int share = warp / kWarpsN;
    const int column = part.n + warp % kWarpsN * kWarpN;
    const int block = min(column / kBlock, params.weights.blocks_n - 1),
              fragment = column % kBlock / 16;
    weights_ =
        params.weights.packed + kCodesAt +
        (static_cast<int64_t>(block) * params.weights.blocks_k * 4 + fragment) * (kLoads * 512) +
        lane * 16;
    const int64_t entry =
        static_cast<int64_t>(block) * params.weights.groups * kBlock + lane / 4 * 8 + fragment * 2;
    scales_ = params.weights.packed + params.weights.scales_at + entry * kScaleBytes;
    zeros_ = params.weights.packed + params.weights.zeros_at + entry;
    block_ = part.first + share * TOGETHER;
    turns_ = (part.last - part.first + kTurn - 1) / kTurn;
    slot_at_ = slots_at_ = kWeightsAt + warp * kWarpBytes + lane * 16;
    const int row = lane % 8;
    row_at_ = row * kRowBytes + share * TOGETHER * kBlocksApart;
    chunk_ = ((lane / 8) ^ row) * 16;
  }

  // No kernel writes weights: their copies may begin before the preceding kernel has ended.
  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      fetch(i / TOGETHER, i);
      if (i + 1 < kDepth) commit_copies();
    }
    fetch_scales();
  }

  // There is one group of copies for each block of k. The copies of a panel belong to the group of
  // the first block of a turn.
  __device__ __forceinline__ void multiply(Sums& sums) {
    panels_.begin((turns_ + kRounds - 1) / kRounds);
    commit_copies();
    wait_copies<0>();
    int round = 0;
#pragma unroll 1
    for (int left = turns_; left > 0; --left) {
      wait_copies<kDepth - 1>();
      if (round == 0) tokens_at_ = panels_.next() + row_at_;
      take_turn(sums);
      tokens_at_ += kTurn * kBlocksApart;
      if (++round == kRounds) {
        round = 0;
        panels_.leave();
      }
    }
    wait_copies<0>();
#pragma unroll
    for (auto& fragment : sums.of)
#pragma unroll
      for (auto& four : fragment)
#pragma unroll
        for (int i = 0; i < 4; ++i) four[i] *= rows_up(i >= 2);
  }

 private:
  static constexpr int kSlotBytes = kFragments * kLoads * 512;

  __device__ __forceinline__ int within(int block) const {
    return min(block, params_.weights.blocks_k - 1);
  }

  // Requests the i-th of the blocks in flight, for the turn that is `turns` turns ahead.
  __device__ __forceinline__ void fetch(int turns, int i) {
    const int block = within(block_ + turns * kTurn + i % TOGETHER);
    const char* from = weights_ + static_cast<int64_t>(block) * kBlockBytes;
    const uint32_t to = base_ + slot_at_ + i * kSlotBytes;
#pragma unroll
    for (int j = 0; j < kFragments * kLoads; ++j) copy_async(to + j * 512, from + j * 512, 16);
  }

  // A lane reads only what it copied itself, so no barrier is needed.
  __device__ __forceinline__ uint4 weights(int i, int load) const {
    return *reinterpret_cast<const uint4*>(memory_ + slot_at_ + i * kSlotBytes + load * 512);
  }

  // The scales of a lane's rows are neighbours in memory, two for each fragment.
  __device__ __forceinline__ void fetch_scales() {
    const int64_t group = within(block_) >> params_.weights.group_shift;
    const char* from = scales_ + group * (kBlock * kScaleBytes);
    if constexpr (kScaleWords == 2) {
      const uint2 two = __ldg(reinterpret_cast<const uint2*>(from));
      ahead_.scale[0] = two.x;
      ahead_.scale[1] = two.y;
    } else {
#pragma unroll
      for (int i = 0; i < kScaleWords; i += 4)
        load_four(from + i * 4, *reinterpret_cast<uint32_t(*)[4]>(&ahead_.scale[i]));
    }
    if constexpr (ZEROS && kFragments == 4) {
      const uint2 two = __ldg(reinterpret_cast<const uint2*>(zeros_ + group * kBlock));
      ahead_.zero[0] = two.x;
      ahead_.zero[1] = two.y;
    } else if constexpr (ZEROS) {
      ahead_.zero[0] = __ldg(reinterpret_cast<const uint32_t*>(zeros_ + group * kBlock));
    }
  }

  static __device__ __forceinline__ float scale(const Scales& from, int fragment, int high) {
    if constexpr (kScaleBits == 32) {
      return __uint_as_float(from.scale[fragment * 2 + high]);
    } else {
      return high ? float_of_upper(from.scale[fragment]) : float_of_lower(from.scale[fragment]);
    }
  }

  // The scales of a fragment's two rows, as scaled() takes them.
  static __device__ __forceinline__ Pair scale_pair(const Scales& from, int fragment) {
    if constexpr (kScaleBits == 32) {
      return {from.scale[fragment * 2], from.scale[fragment * 2 + 1]};
    } else {
      const uint32_t two = from.scale[fragment];
      return {choose_bytes(two, 0, 0x1010), choose_bytes(two, 0, 0x3232)};
    }
  }

  __device__ __forceinline__ Pair zeros(const Scales& from, int fragment) const {
    if constexpr (ZEROS) {
      const uint32_t two = from.zero[fragment / 2] >> (fragment % 2 * 16);
      return negated_zeros(two & 0xff, two >> 8 & 0xff);
    } else {
      return negated_zeros(params_.weights.zero, params_.weights.zero);
    }
  }

  __device__ __forceinline__ void take_turn(Sums& sums) {
    const Scales scales = ahead_;
    block_ += kTurn;
    fetch_scales();
    Sums parts;
#pragma unroll
    for (int i = 0; i < TOGETHER; ++i) {
      if (i > 0) wait_copies<kDepth - 1>();
      multiply_block(i, scales, kRounded ? sums : parts);
      fetch(kDepth / TOGETHER - 1, i);
      commit_copies();
    }
    if constexpr (kDepth > TOGETHER) {
      slot_at_ += TOGETHER * kSlotBytes;
      if (slot_at_ == slots_at_ + kDepth * kSlotBytes) slot_at_ = slots_at_;
    }
    if constexpr (!kRounded) add_scaled(parts, scales, sums);
  }

  // The sums of products with codes are scaled in f32.
  static __device__ __forceinline__ void add_scaled(const Sums& parts, const Scales& scales,
                                                    Sums& sums) {
#pragma unroll
    for (int f = 0; f < kFragments; ++f)
#pragma unroll
      for (int t = 0; t < kTokens; ++t)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sums.of[f][t][j] = fmaf(parts.of[f][t][j], scale(scales, f, j / 2), sums.of[f][t][j]);
  }

  static __device__ __forceinline__ void round_scaled(const Pair& scale, uint32_t (&a)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = scaled(a[i], i % 2 == 0 ? scale.low : scale.high);
  }

  // Multiplies 32 values of k at a time, which is what one ldmatrix.x4 loads of eight rows.
  __device__ __forceinline__ void multiply_block(int i, const Scales& scales, Sums& to) {
    uint4 codes[kFragments];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t tokens[kTokens][4];
#pragma unroll
      for (int t = 0; t < kTokens; ++t)
        load_matrices(tokens[t],
                      tokens_at_ + i * kBlocksApart + t * 8 * kRowBytes + (chunk_ ^ half * 64));
      if (kLoads == 2 || half == 0) {
#pragma unroll
        for (int f = 0; f < kFragments; ++f) codes[f] = weights(i, f * kLoads + half);
      }
#pragma unroll
      for (int step = 0; step < 2; ++step)
#pragma unroll
        for (int f = 0; f < kFragments; ++f) {
          const uint32_t words[4] = {codes[f].x, codes[f].y, codes[f].z, codes[f].w};
          uint32_t a[4];
          widen(words + (kLoads == 2 ? step * 2 : half * 2 + step), zeros(scales, f), a);
          if constexpr (kRounded) round_scaled(scale_pair(scales, f), a);
#pragma unroll
          for (int t = 0; t < kTokens; ++t) {
            if (!kRounded && i == 0 && half == 0 && step == 0) {
              multiply_first(to.of[f][t], a, tokens[t][0], tokens[t][1]);
            } else {
              multiply_more(to.of[f][t], a, tokens[t][step * 2], tokens[t][step * 2 + 1]);
            }
          }
        }
    }
  }

  const Params& params_;
  char* memory_;
  const uint32_t base_;
  Panels panels_;
  int block_, turns_;                // the next block of k; turns in all
  int slot_at_, slots_at_;           // this lane's weights: the next ones and the first
  uint32_t row_at_, tokens_at_ = 0;  // this lane's row in a panel; the same in the next turn
  int chunk_;
  const char *weights_, *scales_, *zeros_;
  Scales ahead_;
};

}  // namespace attacca_packed_weights

#endif  // ATTACCA_DEVICE_CODE
