// The DEFINES of a row of dot products, constants that follow from them, and the kernel's
// parameters.
//   TILE_M   the most rows of A
//   COLUMNS  columns of the result that a warp computes
//   WARPS_N  warps side by side
//   WARPS_K  warps that share the values of k
//   AHEAD    steps of k whose weights a warp has in flight, 16 bytes for each lane and column
//   EARLY    1: the first weights are prefetched to L2 while the previous kernel ends
//   BLOCKS   blocks that a multiprocessor holds at once
// With HOLE_ACCUMULATORS=2, a gate, each of the two products has COLUMNS columns.
#pragma once

#include <cstdint>

#include "common/element.cuh"
#include "common/epilogue.cuh"

namespace attacca_dot {

constexpr int kTileM = TILE_M, kColumnsOfWarp = COLUMNS, kWarpsN = WARPS_N, kWarpsK = WARPS_K;
constexpr int kAhead = AHEAD;
constexpr bool kEarly = EARLY;
constexpr int kSets = kAccumulators;
static_assert(ELEMENT == ELEMENT_BF16 && kFulls <= 2);

constexpr int kThreads = 32 * kWarpsN * kWarpsK;
constexpr int kTileN = kColumnsOfWarp * kWarpsN;
constexpr int kStepChunks = 32 * kWarpsK;  // 16-byte chunks along k in a step of WARPS_K warps
// Sums of a lane. The lanes' sums are added so that each lane ends with its share of the totals.
constexpr int kSums = kSets * kTileM * kColumnsOfWarp;
static_assert(kSums <= 32 && 32 % kSums == 0);
// The hole takes two columns at once: a pair, which one thread finishes.
constexpr int kPairsOfRow = kTileN / 2, kPairs = kTileM * kPairsOfRow;
static_assert(kTileN % 2 == 0 && kPairs <= kThreads);
// Shared memory: the sums of each share of k.
constexpr int kShareSums = kSets * kTileM * kTileN;
constexpr int kSharedBytes = kWarpsK * kShareSums * 4;

// A factor whose rows are contiguous along k.
struct Matrix {
  const Element* pointer;
  int64_t row_stride, batch_stride;
};

struct Params {
  EpilogueOperands operands;
  Matrix a, b[kSets];
  int32_t m, n, k, batches;
  int32_t first_blocks;  // blocks that start together
};

}  // namespace attacca_dot
