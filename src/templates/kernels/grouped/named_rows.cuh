// Where the rows lie that an index names.
#pragma once

#include "common/device.cuh"
#include "grouped/groups.cuh"

#if defined(ATTACCA_DEVICE_CODE) && defined(GATHERED)

namespace attacca_groups {

constexpr int kOutside = -1;  // the index names no row

// Where row m begins, in pieces of 16 bytes, or kOutside.
__device__ __forceinline__ int first_piece(const NamedRows& rows, int m) {
  const int64_t at = m * rows.index.stride;
  int64_t row = rows.index.bytes == 8 ? __ldg(static_cast<const int64_t*>(rows.index.pointer) + at)
                                      : __ldg(static_cast<const int32_t*>(rows.index.pointer) + at);
  if (row < 0) row += rows.index.rows;
  if (row < 0 || row >= rows.index.rows) return kOutside;
  return static_cast<int>(row * rows.pieces);
}

}  // namespace attacca_groups

#endif  // ATTACCA_DEVICE_CODE && GATHERED
