// direct.cuh for packed weights, which are wgmma's M side: a warp's accumulators are 16 columns of
// the problem by all rows of the tile. Boxes have 32 rows, or all of the tile's. Lanes that hold
// neighbouring columns exchange every second row, so that each lane has pairs of columns, as the
// hole requires.
#pragma once

#include "wgmma/finish/boxes.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

struct SwappedFinish : WarpBoxes {
  static constexpr int kEights = kBoxM / 8;  // groups of 8 rows of a box
  static constexpr int kColumnBoxes = kTileM / kBoxM;

  // The row vectors' words for this thread's columns: two pairs of each part, 8 columns apart.
  uint32_t row_words[kRows ? kRows : 1][kGroupParts][2][2];

  __device__ __forceinline__ explicit SwappedFinish(const Consumer& consumer)
      : WarpBoxes(consumer) {}

  // Whether this lane's accumulators are of an odd column.
  __device__ __forceinline__ bool odd() const { return lane / 4 % 2 != 0; }
  __device__ __forceinline__ int column_of(int part, int half) const {
    return at.n + part * kPartRows + half * 8 + lane / 8 * 2;
  }
  // This lane's row in group i of 8 rows of a box.
  __device__ __forceinline__ int row_of(int i) const { return i * 8 + lane % 4 * 2 + odd(); }

  // Loads what the epilogue of this tile reads, to arrive while the products run.
  __device__ __forceinline__ void begin(const Place& tile) {
    WarpBoxes::begin({tile.m, tile.n + first_row, tile.batch});
#pragma unroll
    for (int s = 0; s < kRows; ++s)
#pragma unroll
      for (int part = 0; part < kGroupParts; ++part)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int v = 0; v < 2; ++v) {
            const int column = column_of(part, half) + v;
            row_words[s][part][half][v] =
                column < params.n ? load_vector_element(params.operands.row[s], at.batch, column)
                                  : 0;
          }
  }

  // The byte of a pair in a box. Its rows have 32 bytes, whose halves the swizzle exchanges.
  __device__ __forceinline__ int offset(int i, int half) const {
    const int byte = row_of(i) * kBoxRowBytes;
    return byte + ((half ^ (byte >> 7 & 1)) << 4) + lane / 8 * 4;
  }

  // Makes the pair of one row from two accumulators of this lane's column and those of the lane
  // with the neighbouring column.
  __device__ __forceinline__ void exchange(Sum first, Sum second, uint32_t (&pair)[2]) const {
    const uint32_t own = raw_bits(odd() ? second : first);
    const uint32_t others = exchange_lanes(raw_bits(odd() ? first : second), 4);
    pair[0] = odd() ? others : own;
    pair[1] = odd() ? own : others;
  }

  __device__ __forceinline__ void finish_box(const Accumulators& sum, int box, int part,
                                             Largest& largest) {
    char* to = memory + byte_of(box * kGroupParts + part);
    const int first_row = at.m + box * kBoxM;
    uint32_t column[kColumns ? kColumns : 1][kEights];
#pragma unroll
    for (int s = 0; s < kColumns; ++s)
#pragma unroll
      for (int i = 0; i < kEights; ++i) {
        const int row = first_row + row_of(i);
        column[s][i] =
            row < params.m ? load_vector_element(params.operands.column[s], at.batch, row) : 0;
      }
#pragma unroll
    for (int i = 0; i < kEights; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        HoleArguments arguments;
        const int value = (box * kEights + i) * 4 + half * 2;
        exchange(sum.value(part, 0, value), sum.value(part, 0, value + 1), arguments.acc[0]);
        uint32_t* const word = reinterpret_cast<uint32_t*>(to + offset(i, half));
        if constexpr (kFulls > 0) arguments.full[0][0] = has_full() ? *word : 0;
#pragma unroll
        for (int s = 0; s < kRows; ++s)
#pragma unroll
          for (int v = 0; v < 2; ++v) arguments.row[s][v] = row_words[s][part][half][v];
#pragma unroll
        for (int s = 0; s < kColumns; ++s) arguments.column[s] = column[s][i];
        const int m = first_row + row_of(i), n = column_of(part, half);
        const attacca_results all = call_hole(arguments, m, n, at.batch, &params.operands.context);
        *word = all.word[0];
        if constexpr (kMaxima > 0)
          if (m < params.m && n < params.n)
            largest.bits = max(largest.bits, all.word[kMaximumWord]);
      }
    }
  }

  __device__ __forceinline__ void finish(const Place&, const Accumulators& sum, Largest& largest) {
    wait_for_full();
    finish_boxes<0>(sum, largest);
  }

  // A recursion, because registers cannot be indexed at run time and nvcc does not unroll every
  // loop of this length.
  template <int BOX>
  __device__ __forceinline__ void finish_boxes(const Accumulators& sum, Largest& largest) {
    if constexpr (BOX < kColumnBoxes) {
#pragma unroll
      for (int part = 0; part < kGroupParts; ++part) {
        make_room();
        finish_box(sum, BOX, part, largest);
        leave(BOX * kGroupParts + part);
      }
      finish_boxes<BOX + 1>(sum, largest);
    }
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
