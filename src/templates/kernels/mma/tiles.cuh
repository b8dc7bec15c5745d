// Copies tiles of A and B to shared memory.
//
// A tile consists of rows of 16-byte chunks. Chunk c of row r is stored at place c ^ (r & 7) of its
// row or, in rows of only 4 chunks, at c ^ (r >> 1 & 3). The 8 rows that one phase of ldmatrix
// reads at equal c then lie in 8 different groups of banks. CUTLASS's swizzled layouts do the same.
#pragma once

#include "mma/config.cuh"
#include "mma/instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_mma {

// Byte offset of a chunk in a tile whose rows have COLUMNS elements.
template <int COLUMNS>
__device__ __forceinline__ int chunk_offset(int row, int chunk) {
  constexpr int kChunks = COLUMNS / kElementChunk;
  static_assert(kChunks == 4 || kChunks % 8 == 0);
  const int turn = kChunks == 4 ? row >> 1 & 3 : row & 7;
  return (row * kChunks + (chunk ^ turn)) * 16;
}

// Copies the ROWS x COLUMNS elements from (row, column) on of a matrix of rows x columns elements,
// and zeros for those outside it. REQUIRES: contiguous columns; a pointer and a row stride that are
// multiples of 16 bytes.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void copy_tile(uint32_t to, const Element* matrix, int64_t row_stride,
                                          int rows, int columns, int row, int column) {
  constexpr int kChunks = COLUMNS / kElementChunk;
  constexpr int kRowsAtOnce = kThreads / kChunks;
  static_assert(kThreads % kChunks == 0 && ROWS % kRowsAtOnce == 0);
  const int chunk = threadIdx.x % kChunks;
  const int first = threadIdx.x / kChunks;
  const int left = (columns - column - chunk * kElementChunk) * kElementBytes;
  const int bytes = min(max(left, 0), 16);
  const Element* from = matrix + (row + first) * row_stride + column + chunk * kElementChunk;
#pragma unroll
  for (int i = 0; i < ROWS; i += kRowsAtOnce) {
    const bool inside = row + first + i < rows;
    copy_async(to + chunk_offset<COLUMNS>(first + i, chunk), from + i * row_stride,
               inside ? bytes : 0);
  }
}

// Copies ROWS x kTileK elements of a factor of any strides and alignment through registers: `load`
// reads them, `store` writes them to shared memory. A word holds two or four neighbours along k.
template <int ROWS>
struct ElementTile {
  static constexpr int kInWord = 4 / kElementBytes;
  static constexpr int kRowWords = kTileK / kInWord;
  static constexpr int kWords = ROWS * kRowWords / kThreads;
  static_assert(ROWS * kRowWords % kThreads == 0);
  uint32_t word[kWords];

  // The row and the word of a thread's i-th word: neighbouring threads read contiguous memory.
  __device__ __forceinline__ static void place(bool k_contiguous, int i, int& row, int& at) {
    const int index = threadIdx.x + i * kThreads;
    row = k_contiguous ? index / kRowWords : index % ROWS;
    at = k_contiguous ? index % kRowWords : index / ROWS;
  }

  __device__ __forceinline__ void load(const Matrix& factor, const Element* matrix, int rows,
                                       int depth, int first_row, int first_k) {
    const bool k_contiguous = factor.k_stride == 1;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      int row, at;
      place(k_contiguous, i, row, at);
      row += first_row;
      const int k = first_k + kInWord * at;
      const Element* from = matrix + row * factor.row_stride + k * factor.k_stride;
      word[i] = 0;
#pragma unroll
      for (int j = 0; j < kInWord; ++j)
        if (row < rows && k + j < depth)
          word[i] |= static_cast<uint32_t>(__ldg(from + j * factor.k_stride))
                     << (8 * kElementBytes * j);
    }
  }

  __device__ __forceinline__ void store(char* tile, bool k_contiguous) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      int row, at;
      place(k_contiguous, i, row, at);
      *reinterpret_cast<uint32_t*>(tile + chunk_offset<kTileK>(row, at / 4) + at % 4 * 4) = word[i];
    }
  }
};

}  // namespace attacca_mma

#endif  // ATTACCA_DEVICE_CODE
