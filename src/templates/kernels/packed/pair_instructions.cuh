// The PTX instructions on a pair of 16-bit numbers of A's type in a word. The emulator of
// tests/templates has its own version of this file.
#pragma once

#include <cstdint>

#include "common/device.cuh"
#include "packed/codes.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_packed_weights {

#if A_BF16
#define MIXED_PAIR "bf16x2"
#else
#define MIXED_PAIR "f16x2"
#endif

// a * b + c.
__device__ __forceinline__ uint32_t multiply_add_pair(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d;
  asm("fma.rn." MIXED_PAIR " %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
__device__ __forceinline__ uint32_t pair_of_floats(float low, float high) {
  uint32_t d;
  asm("cvt.rn." MIXED_PAIR ".f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}
__device__ __forceinline__ float float_of_half(uint32_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<uint16_t>(bits)));
  return value;
}

}  // namespace attacca_packed_weights

#endif  // ATTACCA_DEVICE_CODE
