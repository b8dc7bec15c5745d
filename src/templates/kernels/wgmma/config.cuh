// A row's DEFINES as one struct, what follows from them, and the kernel's parameters. A tile is of
// the problem: its rows are rows of A, its columns rows or columns of B.
#pragma once

#include <cstdint>

#include "common/element.cuh"
#include "common/epilogue.cuh"
#include "common/map.hpp"
#include "common/tile_order.cuh"

namespace attacca_wgmma {

struct Config {
  // Of a block. Each of a gate's two accumulator sets has tile_n columns of its own.
  int tile_m, tile_n;
  // The weights' rows are what wgmma calls M: for few rows of A. A gate's two sets share an
  // instruction (kPaired) where tile_n is not a multiple of 64.
  bool swapped;
  // Two warpgroups multiply tiles of their own: one finishes a tile while the other multiplies.
  // Otherwise they share a tile.
  bool pingpong;
  bool b_k_major;  // B as (N, K), the only layout of 8-bit elements; otherwise as (K, N)
  bool alternate;  // B and B1 are alternate columns of one (K, 2 N)
  // Blocks of a cluster: one below the other, which load their common tile of B together; beside
  // each other, their common tile of A; that share a tile's K (pipeline/split.cuh).
  int cluster_m, cluster_n, cluster_k;
  // The cluster_n blocks share K of the last tiles, where those are too few for all blocks.
  bool shared_tail;
  int stages;  // tiles of A and B in shared memory
  int blocks;  // that a multiprocessor holds
  // The tensor cores add up the products of one tile of k, whose sums are added in full f32: the
  // tensor cores' own sums of 8-bit floats keep 14 bits.
  bool promote;
  // Each tile of k is multiplied by the scales of its blocks before it is added (feed/scales.cuh).
  bool scaled;
  // Results and the full operand move by TMA (finish/boxes.cuh); otherwise any strides are taken.
  bool direct;
};

constexpr Config kConfig = {TILE_M,    TILE_N,    SWAPPED,   PINGPONG,  B_K_MAJOR,
                            ALTERNATE, CLUSTER_M, CLUSTER_N, CLUSTER_K, SHARED_TAIL,
                            STAGES,    BLOCKS,    PROMOTE,   SCALED,    DIRECT};

constexpr int kTileM = kConfig.tile_m, kTileN = kConfig.tile_n;
constexpr int kRowBytes = 128;  // of a tile: the span of the swizzle
constexpr int kTileK = kRowBytes / kElementBytes;
constexpr bool kSwapped = kConfig.swapped, kPingpong = kConfig.pingpong;
constexpr bool kBKMajor = kConfig.b_k_major, kAlternate = kConfig.alternate;
constexpr int kClusterM = kConfig.cluster_m, kClusterN = kConfig.cluster_n;
constexpr int kSharers = kClusterM * kClusterN, kCluster = kSharers * kConfig.cluster_k;  // blocks
constexpr bool kSharedTail = kConfig.shared_tail;
constexpr int kSplits = kSharedTail ? kSharers : kConfig.cluster_k;  // blocks that share a tile's K
constexpr int kStages = kConfig.stages, kBlocks = kConfig.blocks;
constexpr bool kPromote = kConfig.promote, kScaled = kConfig.scaled, kDirect = kConfig.direct;
constexpr int kSets = kAccumulators;
constexpr int kMaps = kAlternate ? 1 : kSets;  // of weights

}  // namespace attacca_wgmma

// What lies in B's place: struct Weights.
#ifdef CODE_BITS
#include "packed/weights.cuh"
#else
#include "wgmma/feed/weights.cuh"
#endif

namespace attacca_wgmma {

constexpr bool kPacked = Weights::kPacked;
constexpr bool kPaired = kSwapped && kSets == 2 && kTileN % 64 != 0;
constexpr int kPairRows = 8;  // the swizzle's pattern
// A tile of B as (K, N) is boxes of 64 columns.
constexpr int kColumnBox = 64, kColumnBoxBytes = 64 * kRowBytes;

// An instruction multiplies 64 rows of what wgmma calls M. The last warpgroup loads.
constexpr int kPartRows = 64;
constexpr int kSideRows = kSwapped ? (kPaired ? kSets : 1) * kTileN : kTileM;
constexpr int kParts = kSideRows / kPartRows;  // of a tile
constexpr int kConsumers = kPaired ? kParts : kPingpong || kParts > 1 ? 2 : 1;
constexpr int kGroupParts = kPingpong ? kParts : kParts / kConsumers;  // of those, a warpgroup's
constexpr int kGroupThreads = 128;
constexpr int kThreads = (kConsumers + 1) * kGroupThreads;
// A warp's of a part, and a part's, in the problem.
constexpr int kWarpRows = kPaired ? kPairRows : 16, kPartSide = 4 * kWarpRows;

// One instruction takes the B tiles of all sets as its N, since they lie one behind the other;
// swapped, each set has its own but where they are paired, and a group one part but of packed
// weights.
constexpr int kInstructions = kSwapped && !kPacked && !kPaired ? kSets : kGroupParts;
constexpr int kInstructionN = kSwapped ? kTileM : kSets * kTileN;
// Accumulators of a thread, of one part and set.
constexpr int kSetValues = (kSwapped ? kTileM : kTileN) / 2;

static_assert(!kScaled || kPromote);
static_assert(!kSharedTail || (kClusterM == 1 && kClusterN == 2 && kConfig.cluster_k == 1 &&
                               kPacked && !kPingpong));
static_assert(!kPacked ||
              (kSwapped && kBKMajor && kSets == 1 && kClusterM == 1 && ELEMENT == ELEMENT_BF16));
static_assert(!kAlternate || (!kBKMajor && !kSwapped && kSets == 2));
static_assert(!kPaired || (kBKMajor && kClusterM == 1 && !kDirect));
static_assert(kBKMajor || (kTileN % kColumnBox == 0 && kElementBytes == 2));
static_assert(kSideRows % kPartRows == 0);
static_assert(!(kSwapped && kPingpong) || kPacked);
static_assert(!(kPromote && kPingpong),
              "a warpgroup that waits for each tile of k cannot take turns");
static_assert(kPingpong || kParts % kConsumers == 0);
static_assert(kInstructions >= kGroupParts);
static_assert(kInstructionN % 8 == 0 && kInstructionN <= 256);

struct Params {
  Map a, b[kMaps];   // of [batch, rows, k], or [batch, k, columns]
  Map result, full;  // direct: of [batch, m, n]
  EpilogueOperands operands;
  int32_t m, n, k, batches;
  TileOrder order;    // a cluster's tiles count as one
  int32_t tiles;      // of all batches
  int32_t odd_first;  // alternate columns: B is the odd ones
  Weights::Params weights;
};

}  // namespace attacca_wgmma
