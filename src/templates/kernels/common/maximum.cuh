// Merges the largest value of a warp into a word of memory that all warps share.
#pragma once

#include <cstdint>

#include "common/device.cuh"

#ifdef ATTACCA_DEVICE_CODE

// Atomic operations on one address run one after the other, so a warp first loads the word: most
// find one that is no smaller than theirs. The load may be served by L1 with an old value; this
// only costs an unneeded atomic operation, as the word never decreases.
__device__ __forceinline__ void merge_maximum(uint32_t* to, uint32_t value) {
  const uint32_t largest = __reduce_max_sync(0xffffffffu, value);
  if (threadIdx.x % 32 == 0 && largest > __ldca(to)) atomicMax(to, largest);
}

#endif
