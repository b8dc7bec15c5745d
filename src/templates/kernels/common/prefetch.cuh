// Prefetches to the L2 cache. Kernels prefetch what the epilogue reads while the product runs,
// because afterwards nothing hides the latency of memory. The previous kernel may still be writing
// these bytes: its writes go through L2 too.
#pragma once

#include <cstdint>

#include "abi.h"
#include "common/device.cuh"
#include "common/prefetch_instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

constexpr int kSectorBytes = 32;

// Prefetches this lane's share of `bytes` bytes: it is number `lane` of `lanes`.
__device__ __forceinline__ void prefetch_bytes(const void* from, int64_t bytes, int lane,
                                               int lanes) {
#pragma unroll 1
  for (int64_t at = lane * kSectorBytes; at < bytes; at += lanes * kSectorBytes)
    prefetch_sector(static_cast<const char*>(from) + at);
}

// Prefetches `count` elements of a vector from `first` on, if they are contiguous.
__device__ __forceinline__ void prefetch_vector(const attacca_vector& vector, int batch, int first,
                                                int count, int lane, int lanes) {
  if (vector.pointer == nullptr || vector.stride != 1) return;
  const char* const all = static_cast<const char*>(vector.pointer);
  prefetch_bytes(all + (first + batch * vector.batch_stride) * vector.bytes,
                 int64_t{count} * vector.bytes, lane, lanes);
}

#endif  // ATTACCA_DEVICE_CODE
