// What the DEFINES of a row of dot products say, what follows from it, and the kernel's parameters.
//   TILE_M            the most rows of A
//   COLUMNS, WARPS_N  a warp computes so many columns of the result, so many warps stand side by
//   side WARPS_K           and so many share the values of k AHEAD             steps of k whose
//   weights a warp has under way at once, 16 bytes a lane and column EARLY             1: the first
//   weights are fetched into L2 while the kernel before ends BLOCKS            that a
//   multiprocessor holds at once
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
constexpr int kStepChunks = 32 * kWarpsK;  // 16 bytes along k: of a step, by all warps that share k
// A lane's sums; those of a warp are added so that each lane keeps its share of them.
constexpr int kSums = kSets * kTileM * kColumnsOfWarp;
static_assert(kSums <= 32 && 32 % kSums == 0);
// The hole takes two columns at once, a thread a pair.
constexpr int kPairsOfRow = kTileN / 2, kPairs = kTileM * kPairsOfRow;
static_assert(kTileN % 2 == 0 && kPairs <= kThreads);
// Shared memory: the sums of each share of k.
constexpr int kShareSums = kSets * kTileM * kTileN;
constexpr int kSharedBytes = kWarpsK * kShareSums * 4;

// Rows of contiguous values of k.
struct Matrix {
  const Element* pointer;
  int64_t row_stride, batch_stride;
};

struct Params {
  EpilogueOperands operands;
  Matrix a, b[kSets];
  int32_t m, n, k, batches;
  int32_t first_blocks;  // that start together
};

}  // namespace attacca_dot
