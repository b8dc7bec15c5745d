// The kernel's shared memory: the stages, each A then B of every set; then what each warp finishes
// its accumulators in; then partial sums of split tiles; then the barriers.
#pragma once

#include "wgmma/config.cuh"

namespace attacca_wgmma {

constexpr int kABytes = kTileM * kRowBytes, kBBytes = Weights::kStageBytes;
constexpr int kStageBytes = kABytes + kSets * kBBytes;
// Blocks that share tiles of B load a part of each, or, where that would cut the swizzle's pattern,
// a set.
constexpr int kPatternBytes = 1024;
constexpr bool kShareSets = kSets == kClusterM && kBBytes / kClusterM % kPatternBytes != 0;
constexpr int kLoadN = kShareSets ? kTileN : kTileN / kClusterM;  // rows of B of a load
static_assert(kABytes / kClusterN % kPatternBytes == 0 && kLoadN * kRowBytes % kPatternBytes == 0);

// Staged: a warp hands over a slice of its accumulators at once, as rows of the problem.
constexpr int kSliceM = kSwapped && kTileM < 16 ? kTileM : kPaired && kTileM % 32 == 0 ? 32 : 16;
constexpr int kSliceN = kPaired ? kPairRows : kSwapped || kTileN % 32 != 0 ? 16 : 32;
constexpr int kSlicePitch = kPaired ? 12 : kSwapped ? 20 : kSliceN == 16 ? 24 : 32;
constexpr int kSlices = kSwapped ? kTileM / kSliceM : kTileN / kSliceN;  // of a part
constexpr int kSliceValues = kSliceM * kSlicePitch;
static_assert(kDirect || (kSwapped ? kTileM % kSliceM : kTileN % kSliceN) == 0);

// Direct: boxes of a warp's 16 rows of results, the widest of which a tile's width is a multiple.
// Swapped: of its 16 columns.
constexpr int kBoxN = kSwapped           ? 16
                      : kTileN % 64 == 0 ? 64
                      : kTileN % 32 == 0 ? 32
                      : kTileN % 16 == 0 ? 16
                                         : 8;
constexpr int kBoxM = !kSwapped ? 16 : kTileM % 32 == 0 ? 32 : kTileM;
constexpr int kResultBytes = kResultBits[0] / 8;
constexpr int kBoxRowBytes = kBoxN * kResultBytes, kBoxBytes = kBoxM * kBoxRowBytes;
constexpr int kBoxes = (kSwapped ? kTileM / kBoxM : kTileN / kBoxN) * kGroupParts;  // of a warp
// The full operand's boxes all come at once.
constexpr int kBoxBuffers = kFulls > 0 || kBoxes < 2 ? kBoxes : 2;
static_assert(!kDirect || !kSwapped || (kPacked && kResultBytes == 2 && kTileM % kBoxM == 0));
static_assert(!kDirect ||
              (!kAlternate && kFulls <= 1 && kResults == 1 && kResultBytes <= 2 &&
               kBoxRowBytes >= 16 && (kFulls == 0 || (kFullBits[0] == 16 && kResultBytes == 2))));

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
static_assert(kSharedBytes <= 232448 / kBlocks - (kBlocks > 1 ? 1024 : 0));

}  // namespace attacca_wgmma
