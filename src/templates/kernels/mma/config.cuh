// The DEFINES of an mma row, constants that follow from them, and the kernel's parameters.
//   TILE_M, TILE_N, TILE_K  the tile that a block computes
//   WARPS_M, WARPS_N        the block's warps along m and n, which share the tile
//   STAGES                  tiles of A and of B in shared memory
//   B_K_MAJOR               1: B is (N, K); 0: B is (K, N)
//   ELEMENT                 of A and B (common/element.cuh); 8-bit elements need B_K_MAJOR=1
//   ANY_STRIDES             1: A and B are loaded by elements, with any strides and alignment
// With HOLE_ACCUMULATORS=2, a gate, each of the two products has TILE_N columns.
#pragma once

#include <cstdint>

#include "common/element.cuh"
#include "common/epilogue.cuh"
#include "common/tile_order.cuh"

namespace attacca_mma {

constexpr int kTileM = TILE_M, kTileN = TILE_N, kTileK = TILE_K;
constexpr int kWarpsM = WARPS_M, kWarpsN = WARPS_N;
constexpr int kStages = STAGES;
constexpr bool kBKMajor = B_K_MAJOR;
constexpr bool kAnyStrides = ANY_STRIDES;

constexpr int kThreads = 32 * kWarpsM * kWarpsN;
constexpr int kWarpM = kTileM / kWarpsM, kWarpN = kTileN / kWarpsN;
// Tiles of mma.sync, 16 x 8, that a warp computes.
constexpr int kFragmentsM = kWarpM / 16, kFragmentsN = kWarpN / 8;
// Accumulator sets: products of the same A.
constexpr int kSets = kAccumulators;
static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kTileK * kElementBytes % kStepBytes == 0);
static_assert(kBKMajor || kElementBytes == 2);
static_assert(!kAnyStrides || (kBKMajor && kStages == 2));

// Shared memory holds the stages of A, then those of each B. After the product it holds one slice
// of the accumulators at a time, set after set: row i of the fragments (16 rows) of every warp. Its
// rows are padded against bank conflicts.
constexpr int kStageABytes = kTileM * kTileK * kElementBytes;
constexpr int kStageBBytes = kTileN * kTileK * kElementBytes;
constexpr int kSliceRows = kWarpsM * 16, kSlicePitch = kTileN + 8;
constexpr int kSliceBytes = kSliceRows * kSlicePitch * 4;
constexpr int kPipelineBytes = kStages * (kStageABytes + kSets * kStageBBytes);
constexpr int kSharedBytes =
    kPipelineBytes > kSets* kSliceBytes ? kPipelineBytes : kSets* kSliceBytes;

// A or B as rows along the result's m or n. Strides are in elements.
struct Matrix {
  const Element* pointer;
  int64_t row_stride, k_stride, batch_stride;
};

struct Params {
  EpilogueOperands operands;
  Matrix a, b[kSets];
  int32_t m, n, k, batches;
  TileOrder order;
};

}  // namespace attacca_mma
