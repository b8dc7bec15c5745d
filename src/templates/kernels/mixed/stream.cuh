// A warp's share of a product with packed weights: it streams blocks of 64 values of k of its own
// columns, makes halves of them, and multiplies them by panels of A that its block shares.
//
// Blocks of k beyond the end repeat the last one and meet zeros of A.
#pragma once

#include "mixed/config.cuh"
#include "mixed/instructions.cuh"
#include "mixed/widen.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_mixed {

struct Sums {
  float of[kFragments][kTokens][4];
};

// The part of the product that this block computes.
struct Part {
  int m, n;         // its first element
  int first, last;  // blocks of k
};

template <bool ZEROS>
struct Stream {
  static constexpr int kScaleWords = kFragments * kScaleBits / 16;
  struct Scales {
    uint32_t scale[kScaleWords];
    uint32_t zero[ZEROS ? kFragments / 2 : 1];
  };

  __device__ __forceinline__ Stream(const Params& params, const Part& part, char* memory)
      : params_(params), part_(part), memory_(memory), base_(shared_address(memory)) {
    const int thread = threadIdx.x, warp = thread / 32;
    lane_ = thread % 32;
    share_ = warp / kWarpsN;
    const int column = part.n + warp % kWarpsN * kWarpN;
    const int block = min(column / kBlock, params.weights.blocks_n - 1), fragment = column % kBlock / 16;
    weights_ = reinterpret_cast<const uint4*>(params.weights.packed + kCodesAt) +
               (static_cast<int64_t>(block) * params.weights.blocks_k * 4 + fragment) * (32 * kLoads) + lane_;
    const int64_t entry = static_cast<int64_t>(block) * params.weights.groups * kBlock + lane_ / 4 * 8 +
                          fragment * 2;
    scales_ = params.weights.packed + params.weights.scales_at + entry * (kScaleBits / 8);
    zeros_ = params.weights.packed + params.weights.zeros_at + entry;
    own_ = kWeightsAt + warp * kWarpBytes + lane_ * 16;
    const int row = lane_ % 8;
    panel_row_ = base_ + row * kPanelRowBytes;
    chunk_ = ((lane_ / 8) ^ row) * 16;
    steps_ = (part.last - part.first + kWarpsK - 1) / kWarpsK;
    const int first_row = thread / kPanelRowChunks;
    panel_place_ = thread % kPanelRowChunks;
    rows_ = params.m - part.m - first_row;
    panel_from_ = params.a + (part.m + first_row) * params.a_stride;
    panel_to_ = base_ + first_row * kPanelRowBytes;
    panel_chunk_ = (panel_place_ ^ first_row) * 16;  // of the first row
  }

  // Weights are nobody's result: they may be under way before the kernel before has ended.
  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      fetch(i, i);
      if (i + 1 < kDepth) commit_copies();
    }
    fetch_scales(0, 0);
  }

  __device__ __forceinline__ void multiply(Sums& sums) {
    copy_panel(0);
    commit_copies();
#pragma unroll 1
    for (int step = 0; step < steps_;) {
#pragma unroll
      for (int i = 0; i < kDepth; ++i) {
        if (step >= steps_) break;
        advance(step, i, sums);
        ++step;
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
  __device__ __forceinline__ int block_at(int step) const {
    return min(part_.first + share_ + step * kWarpsK, params_.weights.blocks_k - 1);
  }

  __device__ __forceinline__ void fetch(int step, int slot) {
    const uint4* from = weights_ + static_cast<int64_t>(block_at(step)) * (4 * 32 * kLoads);
#pragma unroll
    for (int i = 0; i < kFragments * kLoads; ++i)
      copy_async(base_ + own_ + (slot * kFragments * kLoads + i) * 512, from + i * 32, 16);
  }

  // A lane reads what it copied itself: nobody has to be waited for.
  __device__ __forceinline__ uint4 weights(int slot, int i) const {
    return *reinterpret_cast<const uint4*>(memory_ + own_ +
                                           (slot * kFragments * kLoads + i) * 512);
  }

  // Those of a lane's rows lie together: two of each fragment.
  __device__ __forceinline__ void fetch_scales(int step, int slot) {
    const int entry = (block_at(step) >> params_.weights.group_shift) * kBlock;
    Scales& to = ahead_[slot];
    const char* from = scales_ + entry * (kScaleBits / 8);
    if constexpr (kScaleWords == 2) {
      const uint2 two = __ldg(reinterpret_cast<const uint2*>(from));
      to.scale[0] = two.x;
      to.scale[1] = two.y;
    } else {
#pragma unroll
      for (int i = 0; i < kScaleWords; i += 4)
        load_four(from + i * 4, *reinterpret_cast<uint32_t(*)[4]>(&to.scale[i]));
    }
    if constexpr (ZEROS && kFragments == 4) {
      const uint2 two = __ldg(reinterpret_cast<const uint2*>(zeros_ + entry));
      to.zero[0] = two.x;
      to.zero[1] = two.y;
    } else if constexpr (ZEROS) {
      to.zero[0] = __ldg(reinterpret_cast<const uint32_t*>(zeros_ + entry));
    }
  }

  static __device__ __forceinline__ float scale(const Scales& from, int fragment, int high) {
    if constexpr (kScaleBits == 32) {
      return __uint_as_float(from.scale[fragment * 2 + high]);
    } else {
      return high ? float_of_upper(from.scale[fragment]) : float_of_lower(from.scale[fragment]);
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

  // Rows of a panel are exchanged by 16 bytes, so that eight of them meet no bank twice. A thread copies
  // the same 16 bytes of every kPanelRowsApart-th row.
  __device__ __forceinline__ void copy_panel(int panel) {
    const int k = (part_.first + panel * kPanel) * kBlock + panel_place_ * 8;
    const int bytes = max(0, min(16, (min(part_.last * kBlock, params_.k) - k) * 2));
    const uint16_t* from = panel_from_ + k;
    const uint32_t to = panel_to_ + panel % 2 * kPanelBytes;
#pragma unroll
    for (int row = 0; row < kTileM; row += kPanelRowsApart) {
      // Rows beyond the last are zeros: nothing is read.
      copy_async(to + row * kPanelRowBytes + (panel_chunk_ ^ (row & 7) * 16), from,
                 row < rows_ ? bytes : 0);
      from += kPanelRowsApart * params_.a_stride;
    }
  }

  // Of groups of copies there is one a step, the panel's in that of the step that copies it.
  __device__ __forceinline__ void advance(int step, int slot, Sums& sums) {
    const int round = step % kRounds;
    if (round == 0) {
      if (step == 0) {
        wait_copies<0>();
      } else {
        wait_copies<(kRounds < kDepth ? kRounds : kDepth) - 1>();
      }
      __syncthreads();
      if (step + kRounds < steps_) copy_panel(step / kRounds + 1);
    } else {
      wait_copies<kDepth - 1>();
    }
    fetch_scales(step + 1, (slot + 1) % 2);
    uint32_t tokens[kTokens][8];
    load_tokens(panel_row_ + step / kRounds % 2 * kPanelBytes + (share_ + round * kWarpsK) * 128,
                tokens);
    multiply_block(slot, tokens, sums);
    fetch(step + kDepth, slot);
    commit_copies();
  }

  __device__ __forceinline__ void load_tokens(uint32_t at, uint32_t (&tokens)[kTokens][8]) const {
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint32_t four[4];
        load_matrices(four, at + t * 8 * kPanelRowBytes + (chunk_ ^ half * 64));
#pragma unroll
        for (int i = 0; i < 4; ++i) tokens[t][half * 4 + i] = four[i];
      }
    }
  }

  // Sums of a block of k get their scale in f32.
  __device__ __forceinline__ void multiply_block(int slot, const uint32_t (&tokens)[kTokens][8],
                                                 Sums& sums) {
    const Scales& scales = ahead_[slot % 2];
#pragma unroll
    for (int f = 0; f < kFragments; ++f) {
      const Pair minus = zeros(scales, f);
      float part[kTokens][4];
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        const uint4 four = weights(slot, f * kLoads + (kLoads == 2 ? step / 2 : 0));
        const uint32_t words[4] = {four.x, four.y, four.z, four.w};
        uint32_t a[4];
        widen(words + (kLoads == 2 ? step % 2 * 2 : step), minus, a);
#pragma unroll
        for (int t = 0; t < kTokens; ++t) {
          if (step == 0) {
            multiply_first(part[t], a, tokens[t][0], tokens[t][1]);
          } else {
            multiply_more(part[t], a, tokens[t][step * 2], tokens[t][step * 2 + 1]);
          }
        }
      }
#pragma unroll
      for (int t = 0; t < kTokens; ++t)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sums.of[f][t][i] = fmaf(part[t][i], scale(scales, f, i / 2), sums.of[f][t][i]);
    }
  }

  const Params& params_;
  const Part& part_;
  char* memory_;
  uint32_t base_;
  int lane_, share_, steps_, own_, chunk_;
  uint32_t panel_row_, panel_to_, panel_chunk_;
  int panel_place_, rows_;
  const uint16_t* panel_from_;
  const uint4* weights_;
  const char *scales_, *zeros_;
  Scales ahead_[2];
};

}  // namespace attacca_mixed

#endif  // ATTACCA_DEVICE_CODE
