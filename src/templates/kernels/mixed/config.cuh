// What the DEFINES of a row for packed weights say, what follows from it, and the kernel's parameters.
//   TILE_M               rows of A of a block: 8 or a multiple
//   FRAGMENTS, WARPS_N   a warp multiplies so many times 16 columns, so many warps stand side by side
//   WARPS_K              and so many share the values of k
//   PANEL                blocks of 64 values of k of A that are in shared memory at once, twice
//   DEPTH                blocks of weights that each warp has under way; even
//   BLOCKS               that a multiprocessor holds at once
//   CLUSTER              blocks that share a tile's values of k
//   CODE_BITS, CODE_FLOATS  of the weights: 4, 8; 8 and 1: f8e4m3
//   SCALE_BITS           of their scales: 16, of A's type, or 32
//   A_BF16               1: A is bf16, 0: f16
#pragma once

#include <cstdint>

#include "common/epilogue.cuh"

namespace attacca_mixed {

constexpr int kTileM = TILE_M, kFragments = FRAGMENTS, kWarpsN = WARPS_N, kWarpsK = WARPS_K;
constexpr int kPanel = PANEL, kDepth = DEPTH, kCluster = CLUSTER;
constexpr int kCodeBits = CODE_BITS, kScaleBits = SCALE_BITS;
constexpr bool kCodeFloats = CODE_FLOATS, kBf16 = A_BF16;

constexpr int kThreads = 32 * kWarpsN * kWarpsK;
constexpr int kWarpN = 16 * kFragments, kTileN = kWarpN * kWarpsN;
constexpr int kTokens = kTileM / 8;  // columns of matrix instructions
constexpr int kBlock = 64;           // values of k, and columns, of a packed block
constexpr int64_t kCodesAt = 256;    // behind a packed tensor's header
constexpr int kLoads = kCodeBits / 4;  // of 16 bytes, of a fragment of a block
constexpr int kRounds = kPanel / kWarpsK;  // blocks of a panel that one warp multiplies
static_assert(kPanel % kWarpsK == 0 && (kFragments == 2 || kFragments == 4) && kTileM % 8 == 0);
static_assert(kDepth % 2 == 0 && (kCodeBits == 4 || kCodeBits == 8) && !(kCodeFloats && kCodeBits == 4));

// Shared memory: two panels of A, then each warp's weights; later the sums of every share of k, as rows
// of the problem, padded so that banks do not clash.
constexpr int kPanelRowBytes = kPanel * kBlock * 2, kPanelBytes = kTileM * kPanelRowBytes;
constexpr int kPanelRowChunks = kPanelRowBytes / 16, kPanelRowsApart = kThreads / kPanelRowChunks;
static_assert(kThreads % kPanelRowChunks == 0 && kTileM % kPanelRowsApart == 0 &&
              8 % kPanelRowsApart == 0);
constexpr int kWeightsAt = 2 * kPanelBytes;
constexpr int kWarpBytes = kDepth * kFragments * kLoads * 512;
constexpr int kPitch = kTileN + 4;
constexpr int kSumsBytes = kWarpsK * kTileM * kPitch * 4;
constexpr int kPipelineBytes = kWeightsAt + kWarpsN * kWarpsK * kWarpBytes;
constexpr int kSharedBytes = kPipelineBytes > kSumsBytes ? kPipelineBytes : kSumsBytes;

struct Params {
  EpilogueOperands operands;
  const uint16_t* a;
  int64_t a_stride;  // from row to row, in elements
  const char* packed;
  int64_t scales_at, zeros_at;
  int32_t m, n, k;
  int32_t blocks_n, blocks_k;  // of weights
  int32_t share;               // blocks of k of each block of a cluster
  int32_t groups;              // of a row
  int32_t group_shift;         // from a block of k to its group
  int32_t zero;                // the code of 0 where there are no zero points
  int32_t has_zeros;
};

}  // namespace attacca_mixed
