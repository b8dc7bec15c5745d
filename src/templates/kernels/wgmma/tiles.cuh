// A thread's accumulators, descriptors of tiles, and waiting for a barrier.
#pragma once

#include "wgmma/instructions.cuh"
#include "wgmma/layout.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

__device__ __forceinline__ void wait_for(uint32_t barrier, uint32_t parity) {
  while (!barrier_passed(barrier, parity)) {
  }
}

struct Accumulators {
  Sum of_instruction[kInstructions][kInstructionN / 2];
  __device__ __forceinline__ Sum value(int part, int set, int i) const {
    return kSwapped ? of_instruction[part * kSets + set][i]
                    : of_instruction[part][set * kSetValues + i];
  }
};

// A thread's accumulators of an instruction that multiplies so many of the warpgroup's rows of A.
constexpr int values_of(int rows) {
  return kSwapped ? rows / 2 : kInstructionN / 2;
}

__device__ __forceinline__ void clear(Accumulators& sum) {
#pragma unroll
  for (auto& part : sum.of_instruction)
#pragma unroll
    for (Sum& value : part) value = 0;
}

// Those of the first ROWS of the warpgroup's rows of A.
template <int ROWS = kGroupRows>
__device__ __forceinline__ void pin_all(Accumulators& sum) {
#pragma unroll
  for (auto& part : sum.of_instruction)
#pragma unroll
    for (int i = 0; i < values_of(ROWS); ++i) pin(part[i]);
}

// The first element of a tile, or of a part of it.
template <bool GROUPED_ROWS>
struct PlaceOf {
  int m, n, batch;
};
template <>
struct PlaceOf<true> {
  int m, n, batch;
  int group = 0, end = 0;  // of the tile's rows: their group, which ends at row `end`
};
using Place = PlaceOf<kGrouped>;

// Gives a part of a tile the group of the tile.
__device__ __forceinline__ void keep_group(const PlaceOf<false>&, PlaceOf<false>&) {}
__device__ __forceinline__ void keep_group(const PlaceOf<true>& from, PlaceOf<true>& to) {
  to.group = from.group;
  to.end = from.end;
}

// The row at which a tile's rows end.
__device__ __forceinline__ int end_of_rows(const Params& params, const PlaceOf<false>&) {
  return params.m;
}
__device__ __forceinline__ int end_of_rows(const Params&, const PlaceOf<true>& at) {
  return at.end;
}

// The row that the hole is told: for one behind the tile's last row, a row outside the result, so
// that what the hole itself stores does not reach the next group's rows.
__device__ __forceinline__ int hole_row(const Params& params, const Place& at, int row) {
  return !kGrouped || row < end_of_rows(params, at) ? row : params.m;
}

// The matrix of B that a tile is multiplied by.
__device__ __forceinline__ int matrix_of(const PlaceOf<false>& at) {
  return at.batch;
}
__device__ __forceinline__ int matrix_of(const PlaceOf<true>& at) {
  return at.group;
}

// The batch of the epilogue's vectors and of what its body loads: a group's rows are one. Rows of
// no group have the last group's operands.
__device__ __forceinline__ int operand_batch(const Params&, const PlaceOf<false>& at) {
  return at.batch;
}
template <class GroupedParams>
__device__ __forceinline__ int operand_batch(const GroupedParams& params, const PlaceOf<true>& at) {
  return min(at.group, params.weights.groups - 1);
}

// The matrix descriptor (PTX ISA, wgmma) of the tile at `address`, whose rows have 128 bytes in the
// 128-byte swizzle: groups of 8 rows are 1024 bytes apart. The rows of a transposed operand are
// values of k of 64 columns; boxes of 64 columns follow each other.
template <bool TRANSPOSED>
__device__ __forceinline__ uint64_t tile_descriptor(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kGroupsApart = uint64_t{1024 >> 4} << 32;
  constexpr uint64_t kBoxesApart = uint64_t{TRANSPOSED ? kColumnBoxBytes >> 4 : 1} << 16;
  return kSwizzle128 | kGroupsApart | kBoxesApart | (address & 0x3ffff) >> 4;
}

// The descriptor of the address `sixteens` * 16 bytes further on. The sum never carries into the
// upper half.
__device__ __forceinline__ uint64_t moved_descriptor(uint64_t first, int sixteens) {
  return (first >> 32 << 32) | (static_cast<uint32_t>(first) + static_cast<uint32_t>(sixteens));
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
