// The PTX instructions that prefetch. The emulator of tests/templates has its own version of this
// file.
#pragma once

#include "common/device.cuh"

#ifdef ATTACCA_DEVICE_CODE

// Prefetches the 32 bytes at an address to L2.
__device__ __forceinline__ void prefetch_sector(const void* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// Prefetches many bytes to L2 by one instruction. REQUIRES: sm_90; `bytes` and `at` are multiples
// of 16.
__device__ __forceinline__ void prefetch_run(const void* at, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at), "r"(bytes));
}

// Prefetches a tensor map (CUtensorMap), so that the first copy does not wait for it.
__device__ __forceinline__ void prefetch_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

#endif  // ATTACCA_DEVICE_CODE
