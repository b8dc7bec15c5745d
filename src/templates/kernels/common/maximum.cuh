// The largest word of a warp into memory that all warps share.
#pragma once

#include <cstdint>

#include "common/device.cuh"

#ifdef ATTACCA_DEVICE_CODE

// Most warps find a value that is no smaller than theirs, perhaps an old one of their cache: few
// need the atomic operation, which one address takes one at a time.
__device__ __forceinline__ void merge_maximum(uint32_t* to, uint32_t value) {
  const uint32_t largest = __reduce_max_sync(0xffffffffu, value);
  if (threadIdx.x % 32 == 0 && largest > __ldca(to)) atomicMax(to, largest);
}

#endif
