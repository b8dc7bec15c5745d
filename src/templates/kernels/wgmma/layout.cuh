// The kernel's shared memory: the stages, each with A and then B of every set; a buffer for each
// warp's results; the partial sums of split tiles; the stages' scales; the barriers; the groups'
// tiles.
#pragma once

#include "wgmma/config.cuh"

namespace attacca_wgmma {

constexpr int kABytes = kTileM * kRowBytes, kBBytes = Weights::kStageBytes;
constexpr int kStageBytes = kABytes + kSets * kBBytes;
constexpr int kBoxedBytes = kGathered ? kSets * kBBytes : kStageBytes;  // that TMA copies
// Blocks that share tiles of B each load a part of every tile or, if that would cut a pattern of
// the swizzle, all of one set's tile.
constexpr int kPatternBytes = 1024;
constexpr bool kShareSets = kSets == kClusterM && kBBytes / kClusterM % kPatternBytes != 0;
constexpr int kLoadN = kShareSets ? kTileN : kTileN / kClusterM;  // rows of B that one load copies
// A tile of A consists of boxes of rows. Fitted: more of them, so that few rows are few boxes.
constexpr int kRowBoxes = (kFitted ? 3 : 1) * kClusterN, kRowBoxM = kTileM / kRowBoxes;
static_assert(kABytes / kRowBoxes % kPatternBytes == 0 && kLoadN * kRowBytes % kPatternBytes == 0);

// Staged: a slice is what a warp passes through shared memory at once, as rows of the problem.
// Fitted tiles: as many rows as there is room for.
constexpr int kSliceM = kSwapped && kTileM < 16       ? kTileM
                        : kPaired && kTileM % 32 == 0 ? 32
                        : kFitted && kSets == 1       ? 48
                                                      : 16;
constexpr int kSliceN = kPaired ? kPairRows : kSwapped || kTileN % 32 != 0 ? 16 : 32;
constexpr int kSlicePitch = kPaired ? 12 : kSwapped ? 20 : kSliceN == 16 ? 24 : 32;
constexpr int kSlices = kSwapped ? kTileM / kSliceM : kTileN / kSliceN;  // of a part
constexpr int kSliceValues = kSliceM * kSlicePitch;
static_assert(kDirect || (kSwapped ? kTileM % kSliceM : kTileN % kSliceN) == 0);

// Direct: a box has the warp's 16 rows of the result, and the most of 64, 32, 16 or 8 columns that
// divide the tile's. Swapped: the warp's 16 columns, and 32 rows or all of the tile's.
constexpr int kBoxN = kSwapped           ? 16
                      : kTileN % 64 == 0 ? 64
                      : kTileN % 32 == 0 ? 32
                      : kTileN % 16 == 0 ? 16
                                         : 8;
constexpr int kBoxM = !kSwapped ? 16 : kTileM % 32 == 0 ? 32 : kTileM;
constexpr int kResultBytes = kResultBits[0] / 8;
constexpr int kBoxRowBytes = kBoxN * kResultBytes, kBoxBytes = kBoxM * kBoxRowBytes;
constexpr int kBoxes = (kSwapped ? kTileM / kBoxM : kTileN / kBoxN) * kGroupParts;  // of a warp
// All boxes of the full operand are loaded at once.
constexpr int kBoxBuffers = kFulls > 0 || kBoxes < 2 ? kBoxes : 2;
static_assert(!kDirect || !kSwapped || (kInRegisters && kResultBytes == 2 && kTileM % kBoxM == 0));
static_assert(!kDirect || (!kAlternate && kFulls <= (kSwapped || kGrouped ? 1 : 2) &&
                           kResults == 1 && kResultBytes <= 2 && kBoxRowBytes >= 16 &&
                           (kFulls == 0 || (kFullBits[0] == 16 && kResultBytes == 2)) &&
                           (kFulls < 2 || kFullBits[1] == 16)));

constexpr int kWarpBytes = kDirect ? kBoxBuffers * kBoxBytes : kSets * kSliceValues * 4;
constexpr int kWarps = kConsumers * 4;  // that finish tiles
constexpr int kSlicesAt = kStages * kStageBytes;
// Split tiles: what is sent to the warps that finish them.
constexpr int kPartialBytes = kInstructions * kInstructionN / 2 * 4 * 32;  // of a warp
constexpr int kPartialsBytes = kWarps / kSplits * (kSplits - 1) * kPartialBytes;
// Those of a shared tail arrive when the ring is no longer used, and take its place.
constexpr int kPartialsAt = kSharedTail ? 0 : kSlicesAt + kWarps * kWarpBytes;
static_assert(kSplits == 1 || (4 % kSplits == 0 && kPartialsAt % 16 == 0));
static_assert(!kSharedTail || kPartialsBytes <= kSlicesAt);
// Staged scales: one for each row of A, and of each set one for each block that has columns of the
// tile.
// Pieces of kPieceN columns, at most a block, begin at multiples of kPieceN and lie in one block.
constexpr int kScaleBlock = 128, kPowerOfTwo = kTileN & -kTileN;  // the most that divides kTileN
constexpr int kPieceN = kPowerOfTwo < kScaleBlock ? kPowerOfTwo : kScaleBlock;
constexpr int kLastPiece = kTileN - kPieceN;
constexpr int kColumnBlocks = kLastPiece / kScaleBlock + 1 + (kLastPiece % kScaleBlock != 0);
// Of weights in codes: an entry for each column.
constexpr int kStageScaleBytes = kCodes ? kSets * kTileN * kEntryBytes
                                 : kStagedScales
                                     ? (kTileM + (kSets * kColumnBlocks + 1) / 2 * 2) * 4
                                     : 0;
constexpr int kScalesAt = kSlicesAt + kWarps * kWarpBytes + (kSharedTail ? 0 : kPartialsBytes);
constexpr int kBarriersAt = kScalesAt + kStages * kStageScaleBytes;
// Barriers: full, empty, turn, drained, boxes; for split tiles also arrived and read.
constexpr int kBarriers = 2 * kStages + 3 + (kSplits > 1 ? 3 : 1) * kWarps;
constexpr int kGroupsAt = kBarriersAt + kBarriers * 8;
constexpr int kGroupsBytes = kGrouped ? 2 * (kMostGroups + 2) * 4 : 0;
constexpr int kSharedBytes = kGroupsAt + kGroupsBytes;
// A block of sm_90 has at most 227 KB; several blocks of a multiprocessor need 1 KB more each.
static_assert(kSharedBytes <= 232448 / kBlocks - (kBlocks > 1 ? 1024 : 0));

}  // namespace attacca_wgmma
