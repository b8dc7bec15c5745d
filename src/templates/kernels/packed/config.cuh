// The DEFINES of a row for packed weights and few rows, constants that follow from them, and the
// kernel's parameters.
//   TILE_M     rows of A of a block: a multiple of 8
//   FRAGMENTS  fragments of 16 columns that a warp multiplies: 2 or 4
//   WARPS_N    warps side by side
//   WARPS_K    warps that share the values of k
//   PANEL      blocks of 64 values of k in a panel of A
//   PANELS     panels in shared memory
//   BOXES      1: TMA copies the panels; 0: all threads copy them
//   DEPTH      blocks of weights that each warp has in flight; even
//   BLOCKS     blocks that a multiprocessor holds at once
//   CLUSTER    blocks that share a tile's values of k
//   ROUNDED    1: each weight is multiplied by its scale and rounded to A's type; 0: the sums of
//              products with codes are scaled in f32
//   PORTABLE   1: for devices from sm_80 on, without clusters, TMA and dependent launches
// packed/codes.cuh has the others.
#pragma once

#include <cstdint>

#include "common/epilogue.cuh"
#include "common/map.hpp"
#include "packed/codes.cuh"

namespace attacca_packed_weights {

constexpr int kTileM = TILE_M, kFragments = FRAGMENTS, kWarpsN = WARPS_N, kWarpsK = WARPS_K;
constexpr bool kRounded = ROUNDED, kPortable = PORTABLE;
constexpr int kPanel = PANEL, kPanels = PANELS, kDepth = DEPTH, kCluster = CLUSTER;

constexpr int kThreads = 32 * kWarpsN * kWarpsK;
constexpr int kWarpN = 16 * kFragments, kTileN = kWarpN * kWarpsN;
constexpr int kTokens = kTileM / 8;  // groups of 8 rows of A, the N side of mma.sync
// Blocks of k that a warp may multiply before it scales their sum, if one group of scales covers
// them. Two blocks of 8-bit codes would not fit into the registers.
constexpr int kTogether = kLoads == 1 ? 2 : 1;
static_assert(kPanel % (kWarpsK * kTogether) == 0 && kDepth % kTogether == 0);
static_assert((kFragments == 2 || kFragments == 4) && kTileM % 8 == 0);
static_assert(!kPortable || (kCluster == 1 && BOXES == 0));

// Shared memory holds panels of A, then each warp's weights, then barriers. After the product it
// holds the sums of every share of k, as rows of the problem, padded against bank conflicts. The
// 16-byte pieces of a panel's rows are permuted so that ldmatrix, which reads eight rows, has no
// bank conflicts.
constexpr bool kBoxes = BOXES;
constexpr int kBlockRowBytes = kBlock * 2;  // of a row of A in a block
constexpr int kPanelBytes = kPanel * kTileM * kBlockRowBytes;
// A panel is one matrix or, with BOXES, a box for each block of k.
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
  int32_t share;  // blocks of k for each block of a cluster
  int32_t whole;  // by_whole_chunks
};

}  // namespace attacca_packed_weights
