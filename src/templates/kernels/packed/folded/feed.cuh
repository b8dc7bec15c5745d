// The feed for packed 4-bit weights and few rows of A, where widening takes longer than
// multiplying: one fma widens a pair of codes and multiplies it by its scale. A code's bits are
// code * 2^-133 as bf16, so
//   code * 2^-133 * (scale * 2^127) - 8 * scale / 64 = (code - 8) * scale / 64,
// and 16 times that for upper nibbles, is rounded once, as scaled() rounds it. Both factors must be
// exact, which packing finds out (ir/packed/packed.hpp); other weights take two steps.
#pragma once

#include "packed/feed.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

constexpr int kFoldedZero = 8;  // which stands for 0 in s8 codes

// Whether one step suffices for these weights, as their header says.
__device__ __forceinline__ bool fold(const Weights::Params& weights) {
  constexpr int kFlagsAt = 36;
  constexpr uint32_t kFolds = 2;
  if (weights.has_zeros || weights.zero != kFoldedZero) return false;
  return (__ldg(reinterpret_cast<const uint32_t*>(weights.packed + kFlagsAt)) & kFolds) != 0;
}

struct FoldedWidener {
  const char* memory;
  uint32_t codes_at, scales_at;  // this lane's in the first stage
  uint4 codes[kGroupParts];
  Pair by[kGroupParts], plus[kGroupParts];

  __device__ __forceinline__ explicit FoldedWidener(const Consumer& consumer)
      : memory(consumer.memory) {
    using namespace attacca_packed_weights;
    const int first = consumer.first_part(), warp = consumer.warp % 4, lane = consumer.lane;
    codes_at = kABytes + first * kBlockBytes + warp * 512 + lane * 16;
    scales_at = kABytes + Weights::kScalesAt + first * Weights::kBlockScaleBytes +
                (lane / 4 * 8 + warp * 2) * kScaleBytes;
    // Otherwise nvcc computes them again in each stage.
    pin(codes_at);
    pin(scales_at);
  }

  __device__ __forceinline__ void fetch(int stage) {
    using namespace attacca_packed_weights;
    const uint32_t from = stage * kStageBytes;
#pragma unroll
    for (int part = 0; part < kGroupParts; ++part) {
      codes[part] =
          *reinterpret_cast<const uint4*>(memory + (codes_at + from) + part * kBlockBytes);
      // The scales of a lane's two rows, of lower and of upper nibbles, are neighbours.
      const uint32_t two = *reinterpret_cast<const uint32_t*>(memory + (scales_at + from) +
                                                              part * Weights::kBlockScaleBytes);
      constexpr uint32_t kBig = both(0x7f00), kNone = both(0x8000);  // 2^127, -0
      constexpr uint32_t kZeros = 0xc000be00;                        // -kFoldedZero / 4, / 64
      by[part] = halves_of(multiply_add_pair(two, kBig, kNone));
      plus[part] = halves_of(multiply_add_pair(two, kZeros, kNone));
    }
  }

  // REQUIRES: no product reads `to` any more.
  __device__ __forceinline__ void widen(int step, Fragments& to) const {
#pragma unroll
    for (int part = 0; part < kGroupParts; ++part) {
      const uint4& four = codes[part];
      const uint32_t words[4] = {four.x, four.y, four.z, four.w};
      attacca_packed_weights::multiply_nibbles(words[step], by[part], plus[part], to.of[part]);
#pragma unroll
      for (int i = 0; i < 4; ++i) pin(to.of[part][i]);
    }
  }

 private:
  // Each half twice.
  static __device__ __forceinline__ Pair halves_of(uint32_t two) {
    return {choose_bytes(two, 0, 0x1010), choose_bytes(two, 0, 0x3232)};
  }
};

struct FoldedFeed : PackedLoads {
  static_assert(attacca_packed_weights::kBf16 && attacca_packed_weights::kCodeBits == 4 &&
                attacca_packed_weights::kScaleBits == 16);

  const bool folds;
  PackedFeed in_two_steps;
  WideningFeed<PackedLoads, FoldedWidener> in_one_step;

  __device__ __forceinline__ explicit FoldedFeed(const Consumer& consumer)
      : folds(fold(consumer.params.weights)), in_two_steps(consumer), in_one_step(consumer) {}

  __device__ __forceinline__ void multiply_tile(const Shared& shared, const Place& at,
                                                const KRange& range, const Readers& readers,
                                                Ring& ring, Accumulators& sum) {
    if (folds) {
      in_one_step.multiply_tile(shared, at, range, readers, ring, sum);
    } else {
      in_two_steps.multiply_tile(shared, at, range, readers, ring, sum);
    }
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
