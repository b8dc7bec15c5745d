// The epilogue for results and a full operand that TMA can copy: a warp finishes its accumulators
// in the layout in which wgmma leaves them. Its share of a tile consists of boxes of 16 rows. A box
// of the full operand is copied to shared memory while the products run, each thread replaces the
// operands that it read by results, and a copy stores the box. Of a second full operand, for which
// there is no shared memory, threads load their own elements, a box ahead.
#pragma once

#include "wgmma/finish/boxes.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// The row vectors' words for this thread's columns of one box: pairs, 8 columns apart (PTX ISA,
// accumulators of wgmma).
struct RowPairs {
  uint32_t word[kRows ? kRows : 1][kBoxN / 8][2];
};

__device__ __forceinline__ void load_row_pairs(const Params& params, int slot, int batch, int first,
                                               int lane, uint32_t (&word)[kBoxN / 8][2]) {
  const attacca_vector& vector = params.operands.row[slot];
  const int column = first + lane % 4 * 2;
  const bool whole = params.operands.row_access[slot] == kAccessChunks && first + kBoxN <= params.n;
  if (vector.pointer && whole) {
    const char* at = static_cast<const char*>(vector.pointer) +
                     (column + batch * vector.batch_stride) * vector.bytes;
    if (vector.bytes == 2) {
#pragma unroll
      for (int i = 0; i < kBoxN / 8; ++i) {
        const uint32_t two = __ldg(reinterpret_cast<const uint32_t*>(at) + i * 4);
        word[i][0] = two & 0xffff;
        word[i][1] = two >> 16;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kBoxN / 8; ++i) {
        const uint2 two = __ldg(reinterpret_cast<const uint2*>(at) + i * 4);
        word[i][0] = two.x;
        word[i][1] = two.y;
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < kBoxN / 8; ++i)
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const int at = column + i * 8 + v;
        word[i][v] = at < params.n ? load_vector_element(vector, batch, at) : 0;
      }
  }
}

struct DirectFinish : WarpBoxes {
  static constexpr int kPairs = kBoxN / 8 * 2;  // of a thread in a box

  RowPairs next;
  uint32_t second[kFulls > 1 ? kPairs : 1];  // the second full operand's, of the next box
  uint32_t column[kColumns ? kColumns : 1][kGroupParts][2];

  __device__ __forceinline__ explicit DirectFinish(const Consumer& consumer)
      : WarpBoxes(consumer) {}

  __device__ __forceinline__ void load_rows(int box) {
#pragma unroll
    for (int s = 0; s < kRows; ++s)
      load_row_pairs(params, s, operand_batch(params, at), at.n + box * kBoxN, lane, next.word[s]);
  }

  // A thread's first row and column of a box. Odd pairs lie 8 rows below the pair before them; the
  // next even pair lies 8 columns to the right.
  __device__ __forceinline__ int row_of(int part) const {
    return at.m + part * kPartRows + lane / 4;
  }
  __device__ __forceinline__ int column_of(int box) const {
    return at.n + box * kBoxN + lane % 4 * 2;
  }

  __device__ __forceinline__ void load_second(int box, int part) {
    const attacca_operand& full = params.operands.full[1];
    const int row = row_of(part), first = column_of(box);
    const uint16_t* const from =
        static_cast<const uint16_t*>(full.pointer) + offset_of(full, at.batch, row, first);
    if (full.pointer && at.m + part * kPartRows + kBoxM <= params.m &&
        at.n + (box + 1) * kBoxN <= params.n) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i)
        second[i] = *reinterpret_cast<const uint32_t*>(from + i / 2 * 8 +
                                                       (i % 2 ? 8 * full.row_stride : 0));
      return;
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int column = first + i / 2 * 8;
      const uint16_t* const pair = from + i / 2 * 8 + (i % 2 ? 8 * full.row_stride : 0);
      const bool valid = full.pointer && row + i % 2 * 8 < params.m;
      second[i] = valid && column < params.n ? pair[0] : 0;
      if (valid && column + 1 < params.n) second[i] |= static_cast<uint32_t>(pair[1]) << 16;
    }
  }

  // Loads what the epilogue of this tile reads, to arrive while the products run.
  __device__ __forceinline__ void begin(const Place& tile) {
    Place own = {tile.m + first_row, tile.n, tile.batch};
    keep_group(tile, own);
    WarpBoxes::begin(own);
#pragma unroll
    for (int s = 0; s < kColumns; ++s)
#pragma unroll
      for (int part = 0; part < kGroupParts; ++part)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = at.m + part * kPartRows + lane / 4 + half * 8;
          column[s][part][half] =
              row < end_of_rows(params, at)
                  ? load_vector_element(params.operands.column[s], operand_batch(params, at), row)
                  : 0;
        }
    load_rows(0);
  }

  // The byte of a thread's pair i in a box.
  __device__ __forceinline__ int offset(int i) const {
    constexpr int kLines = kBoxRowBytes / 16;  // 16-byte pieces, which the swizzle permutes
    const int byte = lane / 4 * kBoxRowBytes + lane % 4 * 2 * kResultBytes;
    return (byte ^ (byte >> 7 & (kLines - 1)) << 4 ^ i / 2 * 8 * kResultBytes) +
           i % 2 * 8 * kBoxRowBytes;
  }

  __device__ __forceinline__ void finish_box(const Accumulators& sum, int box, int part,
                                             const RowPairs& rows, Largest& largest) {
    char* to = memory + byte_of(box * kGroupParts + part);
    HoleArguments arguments[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int value = box * (kBoxN / 2) + i * 2;
#pragma unroll
      for (int s = 0; s < kSets; ++s)
#pragma unroll
        for (int v = 0; v < 2; ++v)
          arguments[i].acc[s][v] = raw_bits(sum.value(part, s, value + v));
      if constexpr (kFulls > 0)
        arguments[i].full[0][0] =
            has_full() ? *reinterpret_cast<const uint32_t*>(to + offset(i)) : 0;
      if constexpr (kFulls > 1) arguments[i].full[1][0] = second[i];
#pragma unroll
      for (int s = 0; s < kRows; ++s)
#pragma unroll
        for (int v = 0; v < 2; ++v) arguments[i].row[s][v] = rows.word[s][i / 2][v];
#pragma unroll
      for (int s = 0; s < kColumns; ++s) arguments[i].column[s] = column[s][part][i % 2];
    }
    if constexpr (kFulls > 1) {
      const bool last_part = part + 1 == kGroupParts;
      if (!last_part || box + 1 < kTileN / kBoxN)
        load_second(last_part ? box + 1 : box, last_part ? 0 : part + 1);
    }
    const int row = row_of(part), first = column_of(box);
    uint32_t result[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int m = row + i % 2 * 8, n = first + i / 2 * 8;
      const attacca_results all = call_hole(arguments[i], hole_row(params, at, m), n,
                                            operand_batch(params, at), &params.operands.context);
      result[i] = all.word[0];
      if constexpr (kMaxima > 0)
        if (m < end_of_rows(params, at) && n < params.n)
          largest.bits = max(largest.bits, all.word[kMaximumWord]);
    }
    if (is_cut(box * kGroupParts + part)) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) store_pair(result[i], row + i % 2 * 8, first + i / 2 * 8);
      return;
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      if constexpr (kResultBytes == 1) {
        *reinterpret_cast<uint16_t*>(to + offset(i)) = static_cast<uint16_t>(result[i]);
      } else {
        *reinterpret_cast<uint32_t*>(to + offset(i)) = result[i];
      }
    }
  }

  __device__ __forceinline__ void finish(const Place&, const Accumulators& sum, Largest& largest) {
    if constexpr (kFulls > 1) load_second(0, 0);
    wait_for_full();
    finish_column<0>(sum, largest);
  }

  // A recursion, because registers cannot be indexed at run time and nvcc does not unroll every
  // loop of this length.
  template <int BOX>
  __device__ __forceinline__ void finish_column(const Accumulators& sum, Largest& largest) {
    if constexpr (BOX < kTileN / kBoxN) {
      const RowPairs rows = next;
      if constexpr (BOX + 1 < kTileN / kBoxN) load_rows(BOX + 1);
#pragma unroll
      for (int part = 0; part < kGroupParts; ++part) {
        make_room();
        if (!is_empty(BOX * kGroupParts + part)) finish_box(sum, BOX, part, rows, largest);
        leave(BOX * kGroupParts + part);
      }
      finish_column<BOX + 1>(sum, largest);
    }
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
