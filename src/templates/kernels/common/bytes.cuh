// Bytes of words.
#pragma once

#include <cstdint>

#include "common/device.cuh"

#ifdef ATTACCA_DEVICE_CODE

// Bytes w.s0, w.s1, ... of a and b, as __byte_perm numbers them. The emulator has its own.
__device__ __forceinline__ uint32_t choose_bytes(uint32_t a, uint32_t b, uint32_t which) {
  return __byte_perm(a, b, which);
}

#endif
