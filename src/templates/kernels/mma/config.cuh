// What the DEFINES of an mma row say, what follows from it, and the kernel's parameters.
//   TILE_M, TILE_N, TILE_K  of a block; WARPS_M, WARPS_N  how its warps share it
//   STAGES                  tiles of A and B in shared memory
//   B_K_MAJOR               1: B as (N, K); 0: B as (K, N)
//   ELEMENT                 of A and B (common/element.cuh); those of 8 bits take B_K_MAJOR alone
//   ANY_STRIDES             1: element-wise loads of A and B of any strides and alignment
// With HOLE_ACCUMULATORS=2, a gate, each of the two products has a TILE_N of its own.
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
// mma.sync tiles of a warp.
constexpr int kFragmentsM = kWarpM / 16, kFragmentsN = kWarpN / 8;
// Products of one A.
constexpr int kSets = kAccumulators;
static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && kTileK * kElementBytes % kStepBytes == 0);
static_assert(kBKMajor || kElementBytes == 2);
static_assert(!kAnyStrides || (kBKMajor && kStages == 2));

// Shared memory: the stages of A, then those of each B; later the accumulators of one slice, the
// rows of all warps' fragments of one index, padded so that banks do not clash, set after set.
constexpr int kStageABytes = kTileM * kTileK * kElementBytes;
constexpr int kStageBBytes = kTileN * kTileK * kElementBytes;
constexpr int kSliceRows = kWarpsM * 16, kSlicePitch = kTileN + 8;
constexpr int kSliceBytes = kSliceRows * kSlicePitch * 4;
constexpr int kPipelineBytes = kStages * (kStageABytes + kSets * kStageBBytes);
constexpr int kSharedBytes =
    kPipelineBytes > kSets* kSliceBytes ? kPipelineBytes : kSets* kSliceBytes;

// A factor of the product as rows along the result's m or n. Strides in elements.
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
