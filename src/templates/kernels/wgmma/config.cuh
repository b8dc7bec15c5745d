// What the DEFINES of a wgmma row say, what follows from it, and the kernel's parameters.
//   TILE_M, TILE_N  of a block, in the problem's orientation. With HOLE_ACCUMULATORS=2, a gate, each
//                   of the two products has a TILE_N of its own
//   SWAPPED         1: the weights' rows are what wgmma calls M: for few rows of A. Gates of TILE_N 32 and
//                   96 are paired: 8 rows of each product's weights by turns make an instruction's M
//   PINGPONG        1: two warpgroups multiply tiles of their own, so that one finishes a tile while
//                   the other multiplies; 0: they share a tile
//   B_K_MAJOR       1: B as (N, K); 0: as (K, N)
//   ALTERNATE       1: B and B1 are alternate columns of one (K, 2 N)
//   CLUSTER_M       blocks of a cluster, one below the other, that load their common tile of B together
//   CLUSTER_N       and beside each other, their common tile of A
//   CLUSTER_K       blocks of a cluster that share a tile's K (split.cuh)
//   SHARED_TAIL     1: the CLUSTER_N blocks share K of the last tiles, where those are too few for all blocks;
//                   undefined or 0: they do not
//   STAGES          tiles of A and B in shared memory
//   BLOCKS          that a multiprocessor shall hold
//   ELEMENT         of A and B (common/element.cuh); those of 8 bits take B_K_MAJOR alone
//   PROMOTE         1: the tensor cores add up the products of a tile of k alone, which adders of full
//                   f32 then sum: their own sums of 8-bit floats keep 14 bits
//   SCALED          1: each tile of k is multiplied by the scales of its blocks (scales.cuh) before the
//                   adders sum it
//   DIRECT          1: results and the full operand move by TMA (direct.cuh); 0: any strides
//   CODE_BITS       undefined or 0: B is numbers; else packed weights (packed/codes.cuh has more), which
//                   SWAPPED kernels alone take (packed.cuh)
#pragma once

#include <cstdint>

#include "common/element.cuh"
#include "common/epilogue.cuh"
#include "common/map.hpp"
#include "common/tile_order.cuh"
#ifndef CODE_BITS
#define CODE_BITS 0
#endif
#if CODE_BITS
#include "packed/codes.cuh"
#endif

namespace attacca_wgmma {

constexpr int kTileM = TILE_M, kTileN = TILE_N;
constexpr int kRowBytes = 128;  // of a tile: the span of the swizzle
constexpr int kTileK = kRowBytes / kElementBytes;
constexpr bool kSwapped = SWAPPED;
constexpr bool kBKMajor = B_K_MAJOR;
constexpr bool kAlternate = ALTERNATE;
constexpr bool kPromote = PROMOTE;
constexpr bool kScaled = SCALED;
static_assert(!kScaled || kPromote);
constexpr bool kPacked = CODE_BITS > 0;
static_assert(!kPacked || (SWAPPED && B_K_MAJOR && HOLE_ACCUMULATORS == 1 && CLUSTER_M == 1 &&
                           ELEMENT == ELEMENT_BF16));
constexpr int kClusterM = CLUSTER_M, kClusterN = CLUSTER_N;
constexpr int kSharers = kClusterM * kClusterN, kCluster = kSharers * CLUSTER_K;  // blocks
#ifndef SHARED_TAIL
#define SHARED_TAIL 0
#endif
constexpr bool kSharedTail = SHARED_TAIL;
static_assert(!kSharedTail ||
              (CLUSTER_M == 1 && CLUSTER_N == 2 && CLUSTER_K == 1 && kPacked && !PINGPONG));
constexpr int kSplits = kSharedTail ? kSharers : CLUSTER_K;  // blocks that share a tile's K
constexpr int kStages = STAGES;
constexpr int kSets = kAccumulators;
constexpr int kMaps = kAlternate ? 1 : kSets;  // of weights
static_assert(!kAlternate || (!kBKMajor && !kSwapped && kSets == 2));
constexpr bool kPaired = kSwapped && kSets == 2 && kTileN % 64 != 0;
static_assert(!kPaired || (kBKMajor && CLUSTER_M == 1 && !DIRECT));
constexpr int kPairRows = 8;  // the swizzle's pattern
// A tile of B as (K, N) is boxes of 64 columns.
constexpr int kColumnBox = 64, kColumnBoxBytes = 64 * kRowBytes;
static_assert(kBKMajor || (kTileN % kColumnBox == 0 && kElementBytes == 2));

// An instruction multiplies 64 rows of what wgmma calls M. The last warpgroup loads.
constexpr int kPartRows = 64;
constexpr bool kPingpong = PINGPONG;
constexpr int kSideRows = kSwapped ? (kPaired ? kSets : 1) * kTileN : kTileM;
constexpr int kParts = kSideRows / kPartRows;  // of a tile
constexpr int kConsumers = kPaired ? kParts : kPingpong || kParts > 1 ? 2 : 1;
constexpr int kGroupParts = kPingpong ? kParts : kParts / kConsumers;  // of those, a warpgroup's
constexpr int kGroupThreads = 128;
constexpr int kThreads = (kConsumers + 1) * kGroupThreads;
static_assert(kSideRows % kPartRows == 0);
// A warp's of a part, and a part's, in the problem.
constexpr int kWarpRows = kPaired ? kPairRows : 16, kPartSide = 4 * kWarpRows;
static_assert(!(kSwapped && kPingpong) || kPacked);
static_assert(!(kPromote && kPingpong), "who waits for each tile of k gives turns to nobody");
static_assert(kPingpong || kParts % kConsumers == 0);

// One instruction takes the B tiles of all sets as its N, since they lie one behind the other;
// swapped, each set has its own but where they are paired, and a group one part but of packed weights.
constexpr int kInstructions = kSwapped && !kPacked && !kPaired ? kSets : kGroupParts;
static_assert(kInstructions >= kGroupParts);
constexpr int kInstructionN = kSwapped ? kTileM : kSets * kTileN;
static_assert(kInstructionN % 8 == 0 && kInstructionN <= 256);
// Accumulators of a thread, of one part and set.
constexpr int kSetValues = (kSwapped ? kTileM : kTileN) / 2;

// Shared memory: the stages, each A then B of every set; then what each warp hands its accumulators
// over in; then the barriers.
constexpr int kABytes = kTileM * kRowBytes;
#if CODE_BITS
// Of packed weights: blocks of codes, then their scales, then their zero points.
constexpr int kBlocksN = kTileN / attacca_packed_weights::kBlock;
constexpr int kBlockScaleBytes = attacca_packed_weights::kBlock * attacca_packed_weights::kScaleBytes;
constexpr int kScalesAt = kBlocksN * attacca_packed_weights::kBlockBytes;
constexpr int kZerosAt = kScalesAt + kBlocksN * kBlockScaleBytes;
constexpr int kBUsedBytes = kZerosAt + kBlocksN * attacca_packed_weights::kBlock;
constexpr int kBBytes = (kBUsedBytes + 1023) / 1024 * 1024;
static_assert(kTileK == attacca_packed_weights::kBlock);
#else
constexpr int kBBytes = kTileN * kRowBytes;
#endif
constexpr int kStageBytes = kABytes + kSets * kBBytes;
// Blocks that share tiles of B load a part of each, or, where that would cut the swizzle's pattern, a set.
constexpr int kPatternBytes = 1024;
constexpr bool kShareSets = kSets == kClusterM && kBBytes / kClusterM % kPatternBytes != 0;
constexpr int kLoadN = kShareSets ? kTileN : kTileN / kClusterM;  // rows of B of a load
static_assert(kABytes / kClusterN % kPatternBytes == 0 && kLoadN * kRowBytes % kPatternBytes == 0);
// A warp hands over a slice of its accumulators at once, as rows of the problem.
constexpr int kSliceM = kSwapped && kTileM < 16 ? kTileM : kPaired && kTileM % 32 == 0 ? 32 : 16;
constexpr int kSliceN = kPaired ? kPairRows : kSwapped || kTileN % 32 != 0 ? 16 : 32;
constexpr int kSlicePitch = kPaired ? 12 : kSwapped ? 20 : kSliceN == 16 ? 24 : 32;
constexpr int kSlices = kSwapped ? kTileM / kSliceM : kTileN / kSliceN;  // of a part
constexpr int kSliceValues = kSliceM * kSlicePitch;
static_assert(DIRECT || (kSwapped ? kTileM % kSliceM : kTileN % kSliceN) == 0);
// Direct: boxes of a warp's 16 rows of results, the widest of which a tile's width is a multiple. Swapped: of its
// 16 columns.
constexpr bool kDirect = DIRECT;
constexpr int kBoxN = kSwapped ? 16
                      : kTileN % 64 == 0 ? 64
                      : kTileN % 32 == 0 ? 32
                      : kTileN % 16 == 0 ? 16 : 8;
constexpr int kBoxM = !kSwapped ? 16 : kTileM % 32 == 0 ? 32 : kTileM;
constexpr int kResultBytes = kResultBits[0] / 8;
constexpr int kBoxRowBytes = kBoxN * kResultBytes, kBoxBytes = kBoxM * kBoxRowBytes;
constexpr int kBoxes = (kSwapped ? kTileM / kBoxM : kTileN / kBoxN) * kGroupParts;  // of a warp
// The full operand's boxes all come at once.
constexpr int kBoxBuffers = kFulls > 0 || kBoxes < 2 ? kBoxes : 2;
static_assert(!kDirect || !kSwapped || (kPacked && kResultBytes == 2 && kTileM % kBoxM == 0));
static_assert(!kDirect || (!kAlternate && kFulls <= 1 && kResults == 1 &&
                           kResultBytes <= 2 && kBoxRowBytes >= 16 &&
                           (kFulls == 0 || (kFullBits[0] == 16 && kResultBytes == 2))));
constexpr int kWarpBytes = kDirect ? kBoxBuffers * kBoxBytes : kSets * kSliceValues * 4;
constexpr int kWarps = kConsumers * 4;  // that finish
constexpr int kSlicesAt = kStages * kStageBytes;
// Split: what the warps that finish are sent.
constexpr int kPartialBytes = kInstructions * kInstructionN / 2 * 4 * 32;  // of a warp
constexpr int kPartialsBytes = kWarps / kSplits * (kSplits - 1) * kPartialBytes;
// A shared tail's come when the ring is no longer needed.
constexpr int kPartialsAt = kSharedTail ? 0 : kSlicesAt + kWarps * kWarpBytes;
static_assert(kSplits == 1 || (4 % kSplits == 0 && kPartialsAt % 16 == 0));
static_assert(!kSharedTail || kPartialsBytes <= kSlicesAt);
constexpr int kBarriersAt = kSlicesAt + kWarps * kWarpBytes + (kSharedTail ? 0 : kPartialsBytes);
// Full, empty, turns, drained, boxes; and of split tiles: arrived, read.
constexpr int kBarriers = 2 * kStages + 3 + (kSplits > 1 ? 3 : 1) * kWarps;
constexpr int kSharedBytes = kBarriersAt + kBarriers * 8;
static_assert(kSharedBytes <= 232448 / BLOCKS - (BLOCKS > 1 ? 1024 : 0));

struct Params {
  Map a, b[kMaps];   // of [batch, rows, k], or [batch, k, columns]
  Map result, full;  // direct: of [batch, m, n]
  EpilogueOperands operands;
  int32_t m, n, k, batches;
  TileOrder order;  // a cluster's tiles count as one
  int32_t tiles;    // of all batches
  int32_t odd_first;  // alternate columns: B is the odd ones
#if CODE_BITS
  attacca_packed_weights::Weights weights;
#endif
  attacca_operand scale_a, scale_b;
};

}  // namespace attacca_wgmma
