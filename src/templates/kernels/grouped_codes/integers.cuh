// Weights of 4- or 8-bit integers, with scales of A's type and zero points
// (ir/interpret/codes.hpp). A code less its zero point is exact, and divided by a power of two that
// rows_up() gives; its product by the scale is rounded once, as the graph rounds it
// (packed/widen.cuh).
#pragma once

#include "packed/widening.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

struct Integers {
  struct Raw {
    uint16_t scale;
    uint8_t zero;
  };
  using First = int64_t;  // the number of a lane's first scale
  using Entry = uint2;    // a column's two scales, and what widening adds for their zero points
  struct Factors {
    uint32_t scale, added;  // each twice
  };

  static constexpr bool kReadsEarly = false;  // as MxFp4's

  uint32_t flip;

  __device__ __forceinline__ explicit Integers(const Weights::Params& weights)
      : flip(weights.flip) {}

  static __device__ __forceinline__ Raw none(const Weights::Params& weights) {
    return {0, static_cast<uint8_t>(weights.zero)};
  }
  static __device__ __forceinline__ First first(const Weights::Params&, int, int64_t index) {
    return index;
  }
  static __device__ __forceinline__ Raw read(const Weights::Params& weights, int set, First first,
                                             int64_t column, int block) {
    const int64_t at = first + column + (block >> weights.shift);
    Raw raw = none(weights);
    raw.scale = __ldg(static_cast<const uint16_t*>(weights.scales[set]) + at);
    if (weights.zeros[set]) raw.zero = __ldg(weights.zeros[set] + at);
    return raw;
  }

  static __device__ __forceinline__ Entry entry(const Raw (&of)[2]) {
    const uint32_t zeros = of[0].zero | uint32_t{of[1].zero} << 16;
    return {of[0].scale | uint32_t{of[1].scale} << 16, attacca_packed_weights::negated_pair(zeros)};
  }
  static __device__ __forceinline__ Factors factors(Entry entry, int block) {
    const uint32_t half = block == 0 ? 0x1010 : 0x3232;
    return {choose_bytes(entry.x, 0, half), choose_bytes(entry.y, 0, half)};
  }

  // Two codes that follow each other along k.
  __device__ __forceinline__ uint32_t widen(uint32_t codes, const Factors& by) const {
    using namespace attacca_packed_weights;
    const uint32_t less_zero = kCodeBits == 4
                                   ? widen_apart((codes * 0x1001 & both(0x000f)) ^ flip, by.added)
                                   : widen_chosen(codes ^ flip, 0x4140, by.added);
    return multiply_add_pair(less_zero, by.scale, both(0x8000));
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
