// The PTX instructions of the kernels of dot products, as functions. The emulator of
// tests/templates has its own version of this file.
#pragma once

#include <cstdint>

#include "common/chunk.cuh"
#include "common/device.cuh"
#include "wgmma/instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_dot {

using attacca_wgmma::allow_next_kernel;
using attacca_wgmma::exchange_lanes;
using attacca_wgmma::wait_for_previous_kernel;

// Loads 16 bytes that are read only once. Volatile: all loads of a step are issued before the first
// is used.
__device__ __forceinline__ void load_once(const void* at, uint32_t (&word)[4]) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
               : "l"(at));
}

// templates/instantiate.cpp replaces bf16 by f16 in the PTX.
__device__ __forceinline__ float number_of(uint16_t bits) {
  float value;
  asm("cvt.f32.bf16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
__device__ __forceinline__ void numbers_of(uint32_t pair, float& low, float& high) {
  low = number_of(static_cast<uint16_t>(pair));
  high = number_of(static_cast<uint16_t>(pair >> 16));
}

}  // namespace attacca_dot

#endif  // ATTACCA_DEVICE_CODE
