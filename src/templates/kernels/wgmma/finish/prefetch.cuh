// Prefetches to L2 what the epilogue of a tile reads, while the product runs.
#pragma once

#include "common/prefetch.cuh"
#include "wgmma/tiles.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

template <int SLOT>
__device__ __forceinline__ void prefetch_full(const Params& params, const Place& at, int lane) {
  if constexpr (SLOT < kFulls) {
    const attacca_operand& full = params.operands.full[SLOT];
    if (full.pointer == nullptr || full.column_stride != 1) return;
    constexpr int kBytes = kFullBits[SLOT] / 8;
    constexpr int kSectors = kTileN * kBytes / kSectorBytes;  // of a row
    const int rows = min(kTileM, end_of_rows(params, at) - at.m),
              bytes = (params.n - at.n) * kBytes;
    const char* const first =
        static_cast<const char*>(full.pointer) + offset_of(full, at.batch, at.m, at.n) * kBytes;
#pragma unroll 1
    for (int i = lane; i < rows * kSectors; i += 32)
      if (const int byte = i % kSectors * kSectorBytes; byte < bytes)
        prefetch_sector(first + i / kSectors * full.row_stride * kBytes + byte);
  }
}

// Prefetches the vectors of a tile and, if FULLS, the full operands that no TMA copies.
template <bool FULLS>
__device__ __forceinline__ void prefetch_operands(const Params& params, const Place& at, int lane) {
  const EpilogueOperands& all = params.operands;
#pragma unroll
  for (int i = 0; i < kRows; ++i)
    prefetch_vector(all.row[i], operand_batch(params, at), at.n, min(kTileN, params.n - at.n), lane,
                    32);
#pragma unroll
  for (int i = 0; i < kColumns; ++i)
    prefetch_vector(all.column[i], operand_batch(params, at), at.m,
                    min(kTileM, end_of_rows(params, at) - at.m), lane, 32);
  if constexpr (FULLS) {
    if constexpr (!kDirect) prefetch_full<0>(params, at, lane);
    prefetch_full<1>(params, at, lane);
    prefetch_full<2>(params, at, lane);
    prefetch_full<3>(params, at, lane);
  }
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
