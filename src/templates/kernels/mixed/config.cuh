// What the DEFINES of a row for packed weights say, what follows from it, and the kernel's parameters.
//   TILE_M               rows of A of a block: 8 or a multiple
//   FRAGMENTS, WARPS_N   a warp multiplies so many times 16 columns, so many warps stand side by side
//   WARPS_K              and so many share the values of k
//   PANEL, PANELS        blocks of 64 values of k of A make a panel; so many panels are in shared memory
//   DEPTH                blocks of weights that each warp has under way; even
//   BLOCKS               that a multiprocessor holds at once
//   CLUSTER              blocks that share a tile's values of k
//   and what mixed/codes.cuh names
#pragma once

#include <cstdint>

#include "common/epilogue.cuh"
#include "mixed/codes.cuh"

namespace attacca_mixed {

constexpr int kTileM = TILE_M, kFragments = FRAGMENTS, kWarpsN = WARPS_N, kWarpsK = WARPS_K;
constexpr int kPanel = PANEL, kPanels = PANELS, kDepth = DEPTH, kCluster = CLUSTER;

constexpr int kThreads = 32 * kWarpsN * kWarpsK;
constexpr int kWarpN = 16 * kFragments, kTileN = kWarpN * kWarpsN;
constexpr int kTokens = kTileM / 8;  // columns of matrix instructions
// Blocks of k that a warp may take at a time: where a group of scales covers them, it adds their sums first.
constexpr int kTogether = 2;
static_assert(kPanel % (kWarpsK * kTogether) == 0 && kDepth % kTogether == 0);
// Whoever waits for a block of weights has its panel too, which was asked for before it.
static_assert((kPanels - 1) * (kPanel / kWarpsK) >= kDepth);
static_assert((kFragments == 2 || kFragments == 4) && kTileM % 8 == 0);

// Shared memory: panels of A, then each warp's weights; later the sums of every share of k, as rows
// of the problem, padded so that banks do not clash. So many threads copy a panel that their number is a
// power of two.
constexpr int kPanelRowBytes = kPanel * kBlock * 2, kPanelBytes = kTileM * kPanelRowBytes;
constexpr int kPanelThreads = kThreads >= 512 ? 512 : kThreads >= 256 ? 256 : 128;
constexpr int kPanelRowChunks = kPanelRowBytes / 16, kPanelRowsApart = kPanelThreads / kPanelRowChunks;
static_assert(kThreads >= kPanelThreads && kPanelThreads % kPanelRowChunks == 0 &&
              kTileM % kPanelRowsApart == 0 && 8 % kPanelRowsApart == 0);
constexpr int kWeightsAt = kPanels * kPanelBytes;
constexpr int kWarpBytes = kDepth * kFragments * kLoads * 512;
constexpr int kPitch = kTileN + 4;
constexpr int kSumsBytes = kWarpsK * kTileM * kPitch * 4;
constexpr int kPipelineBytes = kWeightsAt + kWarpsN * kWarpsK * kWarpBytes;
constexpr int kSharedBytes = kPipelineBytes > kSumsBytes ? kPipelineBytes : kSumsBytes;

struct Params {
  EpilogueOperands operands;
  const uint16_t* a;
  int64_t a_stride;  // from row to row, in elements
  Weights weights;
  int32_t m, n, k;
  int32_t share;  // blocks of k of each block of a cluster
};

}  // namespace attacca_mixed
