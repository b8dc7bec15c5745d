// Rows of A that an index names. TMA copies rows that follow each other alone, so two warps copy
// them, 16 bytes at a time, to where TMA would have put them. Rows behind the tile's are not
// copied: what they give is not stored.
#pragma once

#include "grouped/instructions.cuh"
#include "grouped/named_rows.cuh"
#include "wgmma/pipeline/producer.cuh"

#if defined(ATTACCA_DEVICE_CODE) && defined(GATHERED)

namespace attacca_wgmma {

struct GatheredRows {
  static constexpr int kCopyThreads = 64;  // the last ones of the block
  static constexpr int kPieceBytes = 16, kPieces = kRowBytes / kPieceBytes;  // of a row
  static constexpr int kLines = kCopyThreads / kPieces;  // rows that all threads copy at once
  static constexpr int kOwn = kTileM / kLines;           // rows of which a thread copies a piece
  static constexpr int kOutside = attacca_groups::kOutside, kNone = -2;  // no row of the tile
  static_assert(kTileM % kLines == 0 && kLines == 8, "the swizzle repeats after 8 rows");

  static __device__ __forceinline__ void prefetch_maps(const Params&) {}
  static __device__ __forceinline__ void load(const Load&, bool) {}

  // REQUIRES: all of the last kCopyThreads threads call it.
  template <class Tiles>
  static __device__ __forceinline__ void copy_all(const Params& params, const Shared& shared,
                                                  Tiles tiles, char* memory, Schedule schedule) {
    const attacca_groups::NamedRows& rows = params.weights.rows;
    const int thread = static_cast<int>(threadIdx.x) - (kThreads - kCopyThreads);
    const int line = thread / kPieces, piece = thread % kPieces;
    const int place = line * kRowBytes + (piece ^ line) * kPieceBytes;
    Ring ring;
    Work work;
#pragma unroll 1
    while (schedule.take(work)) {
      const Place at = tiles.place(work);
      const int k_end = tiles.k(at);
      if (k_end == 0) continue;
      int first[kOwn];
      bool outside = false;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const int m = at.m + i * kLines + line;
        first[i] = m < end_of_rows(params, at) ? attacca_groups::first_piece(rows, m) : kNone;
        outside |= first[i] == kOutside;
      }
      const char* from = static_cast<const char*>(rows.matrix) + piece * kPieceBytes;
#pragma unroll 1
      for (int left = k_end * kElementBytes - piece * kPieceBytes; left > -piece * kPieceBytes;
           left -= kRowBytes, from += kRowBytes) {
        wait_for(shared.empty(ring.stage), (ring.round & 1) ^ 1);
        const uint32_t to = shared.a(ring.stage) + place;
        const int bytes = max(0, min(kPieceBytes, left));
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
          if (first[i] >= 0)
            copy_async(to + i * kLines * kRowBytes, from + int64_t{first[i]} * kPieceBytes, bytes);
        if (outside) {
#pragma unroll
          for (int i = 0; i < kOwn; ++i)
            if (first[i] == kOutside)
              *reinterpret_cast<uint4*>(memory + (to - shared.base) + i * kLines * kRowBytes) =
                  make_uint4(~0u, ~0u, ~0u, ~0u);
          wait_all_copies();
          barrier_arrive(shared.full(ring.stage));
        } else {
          arrive_after_copies(shared.full(ring.stage));
        }
        ring.advance();
      }
    }
    wait_all_copies();
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE && GATHERED
