// A warp's share of the product of two tiles in shared memory.
#pragma once

#include "mma/tiles.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_mma {

struct Accumulators {
  Sum fragment[kSets][kFragmentsM][kFragmentsN][4];
};

struct Warp {
  int lane, m, n;  // m, n: the first element of its part of the tile
};

__device__ __forceinline__ Warp this_warp() {
  const int warp = threadIdx.x / 32;
  return {static_cast<int>(threadIdx.x % 32), warp / kWarpsN * kWarpM, warp % kWarpsN * kWarpN};
}

// A step multiplies two 16-byte chunks of k. Meanwhile the next step's fragments are loaded.
constexpr int kSteps = kTileK * kElementBytes / kStepBytes;

struct Fragments {
  uint32_t a[kFragmentsM][4];
  uint32_t b[kSets][kFragmentsN][2];
};

__device__ __forceinline__ void load_a(uint32_t tile, const Warp& warp, int step,
                                       uint32_t (&a)[kFragmentsM][4]) {
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i) {
    const int row = warp.m + i * 16 + warp.lane % 16;
    load_matrices(a[i], tile + chunk_offset<kTileK>(row, step * 2 + warp.lane / 16));
  }
}

// Loads two fragments at a time. Their four matrices are chunks (n, k), (n, k + 1), (n + 8, k) and
// (n + 8, k + 1).
__device__ __forceinline__ void load_b(uint32_t tile, const Warp& warp, int step,
                                       uint32_t (&b)[kFragmentsN][2]) {
#pragma unroll
  for (int i = 0; i < kFragmentsN; i += 2) {
    uint32_t four[4];
    if constexpr (kBKMajor) {
      const int row = warp.n + i * 8 + warp.lane / 16 * 8 + warp.lane % 8;
      load_matrices(four, tile + chunk_offset<kTileK>(row, step * 2 + warp.lane / 8 % 2));
    } else {
      const int row = step * 16 + warp.lane % 16;
      const int chunk = (warp.n + i * 8) / 8 + warp.lane / 16;
      load_matrices_transposed(four, tile + chunk_offset<kTileN>(row, chunk));
    }
    b[i][0] = four[0];
    b[i][1] = four[1];
    b[i + 1][0] = four[2];
    b[i + 1][1] = four[3];
  }
}

// `tile_b`: the tile of the first set; those of further sets follow `b_apart` bytes apart.
__device__ __forceinline__ void load_fragments(uint32_t tile_a, uint32_t tile_b, int b_apart,
                                               const Warp& warp, int step, Fragments& to) {
  load_a(tile_a, warp, step, to.a);
#pragma unroll
  for (int s = 0; s < kSets; ++s) load_b(tile_b + s * b_apart, warp, step, to.b[s]);
}

__device__ __forceinline__ void multiply_fragments(const Fragments& now, Accumulators& sum) {
#pragma unroll
  for (int s = 0; s < kSets; ++s)
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j)
        multiply_add(sum.fragment[s][i][j], now.a[i], now.b[s][j]);
}

}  // namespace attacca_mma

#endif  // ATTACCA_DEVICE_CODE
