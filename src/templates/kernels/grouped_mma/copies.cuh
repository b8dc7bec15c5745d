// How the tiles of a grouped product reach shared memory: rows of A as they lie, or as an index
// names them, and columns of B, or alternate columns of two matrices.
#pragma once

#include "grouped/named_rows.cuh"
#include "grouped_mma/config.cuh"
#include "grouped_mma/instructions.cuh"
#include "mma/staged.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_grouped_mma {

using attacca_mma::Block;
using attacca_mma::kTileK;
using attacca_mma::kTileM;
using attacca_mma::kTileN;

// Rows that follow each other, of which no copy reads those behind the group's end.
struct OwnRows {
  int end;

  __device__ __forceinline__ OwnRows(const Params&, const Block&, int end, char*) : end(end) {}

  __device__ __forceinline__ void copy_a(const attacca_mma::Params& params, const Block& block,
                                         uint32_t to, int k) const {
    attacca_mma::copy_tile<kTileM, kTileK>(to, block.a, params.a.row_stride, end, params.k,
                                           block.at.m, k);
  }
};

#ifdef GATHERED
// Rows that an index names. Those behind the group's end are not copied: what they give is not
// stored. All bytes of a row that does not exist are 0xff.
struct RowsByIndex {
  static constexpr int kChunks = kTileK / kElementChunk;  // of a row of the tile
  static constexpr int kRowsAtOnce = kThreads / kChunks;  // that all threads copy at once
  static constexpr int kOwn = kTileM / kRowsAtOnce;       // rows of which a thread copies a chunk
  static constexpr int kNone = attacca_groups::kOutside - 1;  // no row of the tile
  static_assert(kThreads % kChunks == 0 && kTileM % kRowsAtOnce == 0);

  const char* matrix;
  char* memory;
  int first[kOwn];  // where the rows begin, in pieces of 16 bytes

  __device__ __forceinline__ RowsByIndex(const Params& params, const Block& block, int end,
                                         char* memory)
      : matrix(static_cast<const char*>(params.weights.rows.matrix)), memory(memory) {
    const int line = threadIdx.x / kChunks;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int m = block.at.m + line + i * kRowsAtOnce;
      first[i] = m < end ? attacca_groups::first_piece(params.weights.rows, m) : kNone;
    }
  }

  __device__ __forceinline__ void copy_a(const attacca_mma::Params& params, const Block&,
                                         uint32_t to, int k) const {
    const int chunk = threadIdx.x % kChunks, line = threadIdx.x / kChunks;
    const int at = k + chunk * kElementChunk;
    const int bytes = min(max((params.k - at) * kElementBytes, 0), 16);
    const char* from = matrix + int64_t{at} * kElementBytes;
    const uint32_t base = shared_address(memory);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const uint32_t place = to + attacca_mma::chunk_offset<kTileK>(line + i * kRowsAtOnce, chunk);
      if (first[i] >= 0) {
        copy_async(place, from + int64_t{first[i]} * 16, bytes);
      } else if (first[i] == attacca_groups::kOutside) {
        *reinterpret_cast<uint4*>(memory + (place - base)) = make_uint4(~0u, ~0u, ~0u, ~0u);
      }
    }
  }
};
using Rows = RowsByIndex;
#else
using Rows = OwnRows;
#endif

struct Copies : Rows {
  using Rows::Rows;

  // Of alternate columns, a set of a stage is a half of the tile's 2 kTileN columns.
  static __device__ __forceinline__ void copy_b(const attacca_mma::Params& params,
                                                const Block& block, int set, uint32_t to, int k) {
    if constexpr (kAlternate) {
      attacca_mma::copy_tile<kTileK, kTileN>(to, block.b[0], params.b[0].k_stride, params.k,
                                             2 * params.n, k, 2 * block.at.n + set * kTileN);
    } else {
      attacca_mma::PlainCopies::copy_b(params, block, set, to, k);
    }
  }
};

}  // namespace attacca_grouped_mma

#endif  // ATTACCA_DEVICE_CODE
