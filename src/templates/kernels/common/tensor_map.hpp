// Maps of copies by TMA (CUtensorMap), as builders make them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/checks.hpp"
#include "common/record.hpp"

namespace {

// Boxes of rows, of a matrix for each of a batch: of elements, strides in bytes.
struct BoxedMatrix {
  const void* pointer;
  int element_bytes;  // 1 or 2
  int64_t extents[3];
  int64_t strides[2];
  uint32_t box[2];  // its rows are of 16 bytes, or of 32, 64 or 128, which the swizzle spans
};

// The driver's cuTensorMapEncodeTiled, its enumerations as numbers.
inline int encode_map(const BoxedMatrix& from, void* map, char* reason, size_t bytes) {
  using Encode =
      int (*)(void* map, int type, uint32_t rank, const void* address, const uint64_t* extents,
              const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
              int interleave, int swizzle, int promotion, int fill);
  constexpr int kUnsigned8 = 0, kUnsigned16 = 1, kNoInterleave = 0, kPromote256 = 3, kFillZero = 0;
  if (!attacca_encode_tiled || !from.pointer)
    return refuse(
        reason, bytes, "%s",
        from.pointer ? "no encoder of tensor maps was given" : "the factors need addresses");
  uint64_t extents[3], strides[2];
  for (int i = 0; i < 3; ++i) extents[i] = static_cast<uint64_t>(from.extents[i]);
  for (int i = 0; i < 2; ++i) strides[i] = static_cast<uint64_t>(from.strides[i]);
  const uint32_t box[] = {from.box[0], from.box[1], 1}, steps[] = {1, 1, 1};
  const int row_bytes = static_cast<int>(from.box[0]) * from.element_bytes;
  const int swizzle = row_bytes == 128 ? 3 : row_bytes == 64 ? 2 : row_bytes == 32 ? 1 : 0;
  const int failure = reinterpret_cast<Encode>(attacca_encode_tiled)(
      map, from.element_bytes == 1 ? kUnsigned8 : kUnsigned16, 3, from.pointer, extents, strides,
      box, steps, kNoInterleave, swizzle, kPromote256, kFillZero);
  if (failure != 0) return refuse(reason, bytes, "cuTensorMapEncodeTiled failed with %d", failure);
  return 0;
}

}  // namespace
