// Tiles of A and B on their way into shared memory.
//
// A tile is rows of 16-byte chunks. Chunk c of row r lies at place c ^ (r & 7) of its row, or,
// where a row has 4 chunks only, c ^ (r >> 1 & 3): the 8 rows that one ldmatrix phase reads at
// equal c then lie in 8 different groups of banks.
#pragma once

#include "sm80/config.cuh"
#include "sm80/instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_sm80 {

// Byte offset of a chunk in a tile whose rows have COLUMNS elements.
template <int COLUMNS>
__device__ __forceinline__ int chunk_offset(int row, int chunk) {
  constexpr int kChunks = COLUMNS / 8;
  static_assert(kChunks == 4 || kChunks % 8 == 0);
  const int turn = kChunks == 4 ? row >> 1 & 3 : row & 7;
  return (row * kChunks + (chunk ^ turn)) * 16;
}

// Copies ROWS x COLUMNS elements whose columns are contiguous, as a matrix of rows x columns
// elements has them from (row, column) on; zero beyond it. For pointers and row strides that are
// multiples of 16 bytes.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void copy_tile(uint32_t to, const uint16_t* matrix, int64_t row_stride,
                                          int rows, int columns, int row, int column) {
  constexpr int kChunks = COLUMNS / 8;
  constexpr int kRowsAtOnce = kThreads / kChunks;
  static_assert(kThreads % kChunks == 0 && ROWS % kRowsAtOnce == 0);
  const int chunk = threadIdx.x % kChunks;
  const int first = threadIdx.x / kChunks;
  const int left = (columns - column - chunk * 8) * 2;
  const int bytes = min(max(left, 0), 16);
  const uint16_t* from = matrix + (row + first) * row_stride + column + chunk * 8;
#pragma unroll
  for (int i = 0; i < ROWS; i += kRowsAtOnce) {
    const bool inside = row + first + i < rows;
    copy_async(to + chunk_offset<COLUMNS>(first + i, chunk), from + i * row_stride,
               inside ? bytes : 0);
  }
}

// ROWS x kTileK elements of a factor of any strides and alignment, on their way through registers:
// `load` starts it, `store` ends it. Words are two neighbours along k.
template <int ROWS>
struct ElementTile {
  static constexpr int kPairs = kTileK / 2;
  static constexpr int kWords = ROWS * kPairs / kThreads;
  static_assert(ROWS * kPairs % kThreads == 0);
  uint32_t word[kWords];

  // Neighbouring threads read what is contiguous.
  __device__ __forceinline__ static void place(bool k_contiguous, int i, int& row, int& pair) {
    const int index = threadIdx.x + i * kThreads;
    row = k_contiguous ? index / kPairs : index % ROWS;
    pair = k_contiguous ? index % kPairs : index / ROWS;
  }

  __device__ __forceinline__ void load(const Factor& factor, const uint16_t* matrix, int rows,
                                       int depth, int first_row, int first_k) {
    const bool k_contiguous = factor.k_stride == 1;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      int row, pair;
      place(k_contiguous, i, row, pair);
      row += first_row;
      const int k = first_k + 2 * pair;
      const uint16_t* at = matrix + row * factor.row_stride + k * factor.k_stride;
      const uint32_t low = row < rows && k < depth ? __ldg(at) : 0;
      const uint32_t high = row < rows && k + 1 < depth ? __ldg(at + factor.k_stride) : 0;
      word[i] = low | high << 16;
    }
  }

  __device__ __forceinline__ void store(char* tile, bool k_contiguous) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      int row, pair;
      place(k_contiguous, i, row, pair);
      *reinterpret_cast<uint32_t*>(tile + chunk_offset<kTileK>(row, pair / 4) + pair % 4 * 4) =
          word[i];
    }
  }
};

}  // namespace attacca_sm80

#endif  // ATTACCA_DEVICE_CODE
