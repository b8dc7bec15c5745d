// Prefetches to L2 what the epilogue of a chunk reads, while the product runs.
#pragma once

#include "common/epilogue.cuh"
#include "common/prefetch.cuh"

#ifdef ATTACCA_DEVICE_CODE

template <int SLOT>
__device__ __forceinline__ void prefetch_full_chunk(const EpilogueOperands& operands, int batch,
                                                    int row, int column) {
  if constexpr (SLOT < kFulls) {
    constexpr int kBytes = kFullBits[SLOT] / 8;
    const attacca_operand& full = operands.full[SLOT];
    if (full.pointer)
      prefetch_sector(static_cast<const char*>(full.pointer) +
                      offset_of(full, batch, row, column) * kBytes);
  }
}

__device__ __forceinline__ void prefetch_element(const attacca_vector& vector, int batch, int at) {
  if (vector.pointer)
    prefetch_sector(static_cast<const char*>(vector.pointer) +
                    (at * vector.stride + batch * vector.batch_stride) * vector.bytes);
}

// Prefetches the inputs of the chunk that starts at (row, column).
__device__ __forceinline__ void prefetch_inputs(const EpilogueOperands& operands, int batch,
                                                int row, int column) {
  prefetch_full_chunk<0>(operands, batch, row, column);
  prefetch_full_chunk<1>(operands, batch, row, column);
  prefetch_full_chunk<2>(operands, batch, row, column);
  prefetch_full_chunk<3>(operands, batch, row, column);
#pragma unroll
  for (int i = 0; i < kRows; ++i) prefetch_element(operands.row[i], batch, column);
#pragma unroll
  for (int i = 0; i < kColumns; ++i) prefetch_element(operands.column[i], batch, row);
}

#endif  // ATTACCA_DEVICE_CODE
