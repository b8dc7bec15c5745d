// The PTX instructions that grouped kernels have beside those of the wgmma kernels. The emulator of
// tests/templates has its own version of this file.
#pragma once

#include <cstdint>

#include "common/device.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// Copies 16 bytes to shared memory, of which only the first `bytes` are read; the rest become 0.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(bytes)
               : "memory");
}
// Waits for this thread's copies.
__device__ __forceinline__ void wait_all_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
// Arrives at a barrier when this thread's copies so far have ended. Its arrivals count as others.
__device__ __forceinline__ void arrive_after_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
