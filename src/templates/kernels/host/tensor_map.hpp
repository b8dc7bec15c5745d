// Makes tensor maps (CUtensorMap), which describe a matrix to TMA, the copy engine of sm_90.
#pragma once

#include <cstddef>
#include <cstdint>

#include "host/factor.hpp"
#include "host/record.hpp"

namespace {

// Makes the map of a matrix for copies of boxes of inner x outer elements, of 1 or 2 bytes each. A
// box's rows have 16, 32, 64 or 128 bytes; from 32 on, TMA swizzles them over their length. Calls
// the driver's cuTensorMapEncodeTiled with its enumerations as numbers, so that cuda.h is not
// needed.
inline int encode_map(const Factor& from, uint32_t inner, uint32_t outer, void* map, char* reason,
                      size_t bytes) {
  using Encode =
      int (*)(void* map, int type, uint32_t rank, const void* address, const uint64_t* extents,
              const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides,
              int interleave, int swizzle, int promotion, int fill);
  constexpr int kUnsigned8 = 0, kUnsigned16 = 1, kNoInterleave = 0, kPromote256 = 3, kFillZero = 0;
  if (!attacca_encode_tiled || !from.pointer)
    return refuse(
        reason, bytes, "%s",
        from.pointer ? "no encoder of tensor maps was given" : "the factors need addresses");
  const OuterStrides steps = outer_strides(from);
  const uint64_t extents[] = {static_cast<uint64_t>(from.inner.extent),
                              static_cast<uint64_t>(from.outer.extent),
                              static_cast<uint64_t>(from.batch.extent)};
  const uint64_t strides[] = {static_cast<uint64_t>(steps.outer * from.bytes),
                              static_cast<uint64_t>(steps.batch * from.bytes)};
  const uint32_t box[] = {inner, outer, 1}, each[] = {1, 1, 1};
  const int row_bytes = static_cast<int>(inner) * from.bytes;
  const int swizzle = row_bytes == 128 ? 3 : row_bytes == 64 ? 2 : row_bytes == 32 ? 1 : 0;
  const int failure = reinterpret_cast<Encode>(attacca_encode_tiled)(
      map, from.bytes == 1 ? kUnsigned8 : kUnsigned16, 3, from.pointer, extents, strides, box, each,
      kNoInterleave, swizzle, kPromote256, kFillZero);
  if (failure != 0) return refuse(reason, bytes, "cuTensorMapEncodeTiled failed with %d", failure);
  return 0;
}

}  // namespace
