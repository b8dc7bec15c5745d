// The machine instructions of requests to the L2 cache. The emulator of tests/templates has its
// own.
#pragma once

#include "common/device.cuh"

#ifdef ATTACCA_DEVICE_CODE

// The 32 bytes at an address.
__device__ __forceinline__ void prefetch_sector(const void* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

// Many bytes by one request: a multiple of 16, as the address is. From sm_90 on.
__device__ __forceinline__ void prefetch_run(const void* at, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(at), "r"(bytes));
}

// A map of copies by TMA (CUtensorMap), before the first copy waits for it.
__device__ __forceinline__ void prefetch_map(const void* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

#endif  // ATTACCA_DEVICE_CODE
