// Weights in MXFP4 (ir/interpret/mxfp4.hpp).
//
// The bits of a code, its sign at the place of a bf16's sign and the others at the lowest bits of
// the exponent and the highest one of the fraction, are the code's value * 2^-126, subnormal or
// not. Both multiplications, by 2^126 and by the scale, are exact, unless the weight itself
// overflows.
#pragma once

#include "packed/widening.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

struct MxFp4 {
  using Raw = uint8_t;           // a scale
  using First = const uint8_t*;  // where a lane's scales begin
  using Entry = uint32_t;        // a column's two scales, as bf16
  using Factors = uint32_t;      // a scale as bf16, twice

  // Whether the next scales are read before these are written, which takes registers for both.
  static constexpr bool kReadsEarly = true;

  __device__ __forceinline__ explicit MxFp4(const Weights::Params&) {}

  static __device__ __forceinline__ Raw none(const Weights::Params&) { return 0; }
  static __device__ __forceinline__ First first(const Weights::Params& weights, int set,
                                                int64_t index) {
    return static_cast<const uint8_t*>(weights.scales[set]) + index;
  }
  static __device__ __forceinline__ Raw read(const Weights::Params&, int, First first,
                                             int64_t column, int block) {
    return __ldg(first + column + block);
  }

  // A scale as bf16, which is subnormal for 0.
  static __device__ __forceinline__ uint32_t scale(uint32_t raw) {
    return raw == 255 ? 0x7fff : max(raw << 7, 0x40u);
  }
  static __device__ __forceinline__ Entry entry(const Raw (&of)[2]) {
    return scale(of[0]) | scale(of[1]) << 16;
  }
  static __device__ __forceinline__ Factors factors(Entry entry, int block) {
    return choose_bytes(entry, 0, block == 0 ? 0x1010 : 0x3232);
  }

  // Two codes, of which the first one is in the lower half of a byte, as bf16.
  __device__ __forceinline__ uint32_t widen(uint32_t byte, Factors by) const {
    using attacca_packed_weights::both;
    using attacca_packed_weights::multiply_add_pair;
    const uint32_t codes = byte * 0x1001 & both(0x000f);  // one in each half
    const uint32_t placed = codes * 0x1040 & both(0x81c0);
    const uint32_t value = multiply_add_pair(placed, both(0x7e80), both(0x8000));  // 2^126
    return multiply_add_pair(value, by, both(0x8000));
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
