// Selects bytes of words.
#pragma once

#include <cstdint>

#include "common/device.cuh"

#ifdef ATTACCA_DEVICE_CODE

// The bytes of a and b that `which` selects, as in __byte_perm. The emulator of tests/templates has
// its own version of this file.
__device__ __forceinline__ uint32_t choose_bytes(uint32_t a, uint32_t b, uint32_t which) {
  return __byte_perm(a, b, which);
}

#endif
