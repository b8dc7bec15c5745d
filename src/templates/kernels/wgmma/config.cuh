// A row's DEFINES as one struct, constants that follow from them, and the kernel's parameters.
// Tiles are in the problem's orientation: a tile's rows are rows of A, and its columns columns of
// the result, whether the template is swapped or not.
#pragma once

#include <cstdint>

#include "common/element.cuh"
#include "common/epilogue.cuh"
#include "common/map.hpp"
#include "common/tile_order.cuh"

namespace attacca_wgmma {

struct Config {
  // The tile of a block. Each of a gate's two accumulator sets has tile_n columns.
  int tile_m, tile_n;
  // For few rows of A: the weights are wgmma's M side, which is always 64, and the rows of A its N,
  // which may be 8. A gate's two sets share an instruction (kPaired) if tile_n is not a multiple of
  // 64.
  bool swapped;
  // Each of two warpgroups has tiles of its own, and finishes one while the other multiplies, as in
  // CUTLASS's kernels of this name. Otherwise both share a tile.
  bool pingpong;
  bool b_k_major;  // B as (N, K), the only layout of 8-bit elements; otherwise as (K, N)
  bool alternate;  // B and B1 are alternate columns of one matrix (K, 2 N)
  // Blocks of a cluster: along m, blocks load their common tile of B together; along n, their
  // common tile of A; along k, they share the values of k of one tile (pipeline/split.cuh).
  int cluster_m, cluster_n, cluster_k;
  // The cluster_n blocks share the values of k of the last tiles if these are too few for all
  // blocks.
  bool shared_tail;
  int stages;  // tiles of A and B in shared memory
  int blocks;  // blocks that a multiprocessor holds
  // The tensor cores sum the products of one tile of k, and ordinary instructions add these sums in
  // f32. The tensor cores' own sums of 8-bit floats keep about 14 bits (DeepSeek-V3 Technical
  // Report, 3.3.2).
  bool promote;
  // The sums of each tile of k are multiplied by the scales of its blocks (feed/scales.cuh).
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
// Of a column's scales in a stage, where B is weights in codes (grouped_codes/feed.cuh).
#ifdef CODES
constexpr int kEntryBytes = CODE_FLOATS ? 4 : 8;
#else
constexpr int kEntryBytes = 0;
#endif
constexpr bool kCodes = kEntryBytes > 0;
// Whether a stage has the scales of its blocks too (feed/staged_scales.cuh, or those of codes).
#if defined(OVERLAPPED) || defined(TURNS)
constexpr bool kStagedScales = kScaled;
#elif defined(CODES)
constexpr bool kStagedScales = true;
#else
constexpr bool kStagedScales = false;
#endif
constexpr int kSets = kAccumulators;
constexpr int kScaledSets = kScaled ? kSets : 1;
constexpr int kMaps = kAlternate ? 1 : kSets;  // tensor maps of weights

}  // namespace attacca_wgmma

// Defines struct Weights: what a stage holds of B.
#if defined(CODES)
#include "grouped_codes/weights.cuh"
#elif defined(BYTE_WEIGHTS)
#include "wide/weights.cuh"
#elif defined(CODE_BITS)
#include "packed/weights.cuh"
#elif defined(GROUPED)
#include "grouped/weights.cuh"
#else
#include "wgmma/feed/weights.cuh"
#endif

namespace attacca_wgmma {

#ifdef GROUPED
constexpr int kMostGroups = GROUPED;  // of A's rows, each with a matrix of its own
#else
constexpr int kMostGroups = 0;
#endif
constexpr bool kGrouped = kMostGroups > 0;
#ifdef GATHERED
constexpr bool kGathered = true;  // A's rows are those that an index names (grouped/gather.cuh)
#else
constexpr bool kGathered = false;
#endif
#ifdef FITTED
constexpr bool kFitted = true;  // a group's tiles share its rows evenly (grouped/tiles.cuh)
#else
constexpr bool kFitted = false;
#endif
constexpr bool kInRegisters = Weights::kInRegisters;  // wgmma takes the weights from registers
// Rows r and r + 8 of a warp's fragment are the columns 2 r and 2 r + 1 (wide/feed.cuh).
constexpr bool kColumnPairs = kInRegisters && !kBKMajor;
constexpr bool kPaired = kSwapped && kSets == 2 && kTileN % 64 != 0;
constexpr int kPairRows = 8;  // after which the swizzle's pattern repeats
// A tile of B as (K, N) consists of boxes of 64 columns.
constexpr int kColumnBox = 64, kColumnBoxBytes = 64 * kRowBytes;

constexpr int kFitRows = 16;  // a multiple of which the rows of each tile are
// A part is the 64 rows of wgmma's M side that one instruction multiplies. The last warpgroup of a
// block loads, the others multiply.
constexpr int kPartRows = 64;
// Of a tile's rows, as many are multiplied as its group has, rounded up to a multiple of this.
constexpr int kRowStep = kFitted                                             ? kFitRows
                         : !kGrouped || kPromote || kInRegisters || kSwapped ? kTileM
                                                                             : kPartRows;
constexpr int kSideRows = kSwapped ? (kPaired ? kSets : 1) * kTileN : kTileM;
constexpr int kParts = kSideRows / kPartRows;  // of a tile
constexpr int kConsumers = kPaired ? kParts : kPingpong || kParts > 1 ? 2 : 1;
constexpr int kGroupParts = kPingpong ? kParts : kParts / kConsumers;    // parts of a warpgroup
constexpr int kGroupRows = kSwapped ? kTileM : kGroupParts * kPartRows;  // of A, of a warpgroup
constexpr int kGroupThreads = 128;
constexpr int kThreads = (kConsumers + 1) * kGroupThreads;
// The rows of the problem (swapped: columns) that a warp has of a part, and those of a part.
constexpr int kWarpRows = kPaired ? kPairRows : 16, kPartSide = 4 * kWarpRows;

// Accumulator arrays of a thread. Not swapped: one for each part; an instruction's N covers the B
// tiles of all sets, which follow each other in shared memory. Swapped: one for each part and set,
// or, with paired sets, for each part.
constexpr int kInstructions = kSwapped && !kPaired ? kGroupParts * kSets : kGroupParts;
constexpr int kInstructionN = kSwapped ? kTileM : kSets * kTileN;
// Accumulators of a thread for one part and set.
constexpr int kSetValues = (kSwapped ? kTileM : kTileN) / 2;

static_assert(!kScaled || kPromote);
static_assert(!kSharedTail || (kClusterM == 1 && kClusterN == 2 && kConfig.cluster_k == 1 &&
                               kInRegisters && !kPingpong));
static_assert(!kInRegisters || (kSwapped && (kSets == 1 || kCodes) && !kPaired && kClusterM == 1 &&
                                ELEMENT != ELEMENT_E4M3));
static_assert(!kColumnPairs || !kDirect);
static_assert(!kGrouped || ((kClusterM == 1 || kFitted) && kSplits == 1));
static_assert(!kGathered || (kGrouped && kCluster == 1));
static_assert(!kAlternate || (!kBKMajor && !kSwapped && kSets == 2));
static_assert(!kPaired || (kBKMajor && kClusterM == 1 && !kDirect));
static_assert(kBKMajor || (kTileN % kColumnBox == 0 && kElementBytes == 2));
static_assert(kSideRows % kPartRows == 0);
static_assert(!(kSwapped && kPingpong) || !kPaired);
static_assert(!(kPromote && kPingpong),
              "a warpgroup that waits for each tile of k cannot take turns");
static_assert(kPingpong || kParts % kConsumers == 0);
static_assert(!kFitted ||
              (kGrouped && kSwapped && !kPaired && !kInRegisters && kTileM % kFitRows == 0));
static_assert(kInstructionN % 8 == 0 && kInstructionN <= 256);

struct Params {
  Map a, b[kMaps];   // of [batch, rows, k], or [batch, k, columns]; gathered: there is no `a`
  Map result, full;  // direct: of [batch, m, n]
  EpilogueOperands operands;
  int32_t m, n, k, batches;
  TileOrder order;    // a cluster's tiles count as one
  int32_t tiles;      // of all batches; grouped: as many as there may be
  int32_t odd_first;  // alternate columns: B is the odd ones
  Weights::Params weights;
};

}  // namespace attacca_wgmma
