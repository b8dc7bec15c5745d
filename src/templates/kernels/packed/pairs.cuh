// A pair of 16-bit numbers of A's type in a word.
#pragma once

#include "common/bytes.cuh"
#include "packed/pair_instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_packed_weights {

// The number in the lower half, and that in the upper half.
__device__ __forceinline__ float float_of_lower(uint32_t pair) {
  return kBf16 ? __uint_as_float(pair << 16) : float_of_half(pair & 0xffff);
}
__device__ __forceinline__ float float_of_upper(uint32_t pair) {
  return kBf16 ? __uint_as_float(pair & 0xffff0000) : float_of_half(pair >> 16);
}

}  // namespace attacca_packed_weights

#endif  // ATTACCA_DEVICE_CODE
