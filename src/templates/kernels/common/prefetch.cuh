// Requests that bytes come to the L2 cache before they are loaded: what an epilogue reads while the
// product runs, since afterwards nothing hides a trip to memory. A kernel before this one may still
// write them: the cache has what it writes.
#pragma once

#include <cstdint>

#include "abi.h"
#include "common/device.cuh"
#include "common/prefetch_instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

constexpr int kSectorBytes = 32;

// Lane `lane` of `lanes` requests its share of these bytes.
__device__ __forceinline__ void prefetch_bytes(const void* from, int64_t bytes, int lane,
                                               int lanes) {
#pragma unroll 1
  for (int64_t at = lane * kSectorBytes; at < bytes; at += lanes * kSectorBytes)
    prefetch_sector(static_cast<const char*>(from) + at);
}

// Elements of a vector of neighbours, from `first` on.
__device__ __forceinline__ void prefetch_vector(const attacca_vector& vector, int batch, int first,
                                                int count, int lane, int lanes) {
  if (vector.pointer == nullptr || vector.stride != 1) return;
  const char* const all = static_cast<const char*>(vector.pointer);
  prefetch_bytes(all + (first + batch * vector.batch_stride) * vector.bytes,
                 int64_t{count} * vector.bytes, lane, lanes);
}

#endif  // ATTACCA_DEVICE_CODE
