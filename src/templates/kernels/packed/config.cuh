// What the DEFINES of a row for packed weights say, what follows from it, and the kernel's
// parameters.
//   TILE_M               rows of A of a block: 8 or a multiple
//   FRAGMENTS, WARPS_N   a warp multiplies so many times 16 columns, so many warps stand side by
//   side WARPS_K              and so many share the values of k PANEL, PANELS        blocks of 64
//   values of k of A make a panel; so many panels are in shared memory BOXES                1:
//   panels come by TMA, 0: all threads copy them DEPTH                blocks of weights that each
//   warp has under way; even BLOCKS               that a multiprocessor holds at once CLUSTER
//   blocks that share a tile's values of k and what packed/codes.cuh names
#pragma once

#include <cstdint>

#include "common/epilogue.cuh"
#include "common/map.hpp"
#include "packed/codes.cuh"

namespace attacca_packed_weights {

constexpr int kTileM = TILE_M, kFragments = FRAGMENTS, kWarpsN = WARPS_N, kWarpsK = WARPS_K;
constexpr int kPanel = PANEL, kPanels = PANELS, kDepth = DEPTH, kCluster = CLUSTER;

constexpr int kThreads = 32 * kWarpsN * kWarpsK;
constexpr int kWarpN = 16 * kFragments, kTileN = kWarpN * kWarpsN;
constexpr int kTokens = kTileM / 8;  // columns of matrix instructions
// Blocks of k that a warp may take at a time: where a group of scales covers them, it adds their
// sums first. Two of 8-bit codes would not fit into the registers.
constexpr int kTogether = kLoads == 1 ? 2 : 1;
static_assert(kPanel % (kWarpsK * kTogether) == 0 && kDepth % kTogether == 0);
static_assert((kFragments == 2 || kFragments == 4) && kTileM % 8 == 0);

// Shared memory: panels of A, then each warp's weights, then barriers; later the sums of every
// share of k, as rows of the problem, padded so that banks do not clash. Eight rows of a panel have
// their 16 bytes exchanged so that they meet no bank twice.
constexpr bool kBoxes = BOXES;
constexpr int kBlockRowBytes = kBlock * 2;  // of a row of A in a block
constexpr int kPanelBytes = kPanel * kTileM * kBlockRowBytes;
// A panel is a matrix, or a box for each block.
constexpr int kRowBytes = kBoxes ? kBlockRowBytes : kPanel * kBlockRowBytes;
constexpr int kBlocksApart = kBoxes ? kTileM * kBlockRowBytes : kBlockRowBytes;
constexpr int kWeightsAt = kPanels * kPanelBytes;
constexpr int kWarpBytes = kDepth * kFragments * kLoads * 512;
constexpr int kPitch = kTileN + 4;
constexpr int kSumsBytes = kWarpsK * kTileM * kPitch * 4;
constexpr int kBarriersAt = kWeightsAt + kWarpsN * kWarpsK * kWarpBytes;
constexpr int kPipelineBytes = kBarriersAt + (kBoxes ? 2 * kPanels * 8 : 0);
constexpr int kSharedBytes = kPipelineBytes > kSumsBytes ? kPipelineBytes : kSumsBytes;

struct Params {
#if BOXES
  Map panels;  // of A
#endif
  EpilogueOperands operands;
  const uint16_t* a;
  int64_t a_stride;  // from row to row, in elements
  Weights weights;
  int32_t m, n, k;
  int32_t share;  // blocks of k of each block of a cluster
  int32_t whole;  // by_whole_chunks
};

}  // namespace attacca_packed_weights
