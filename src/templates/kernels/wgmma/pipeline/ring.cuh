// The ring of stages in shared memory, and the barriers that order its loads and reads.
#pragma once

#include "wgmma/tiles.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// The next stage, and how often the ring has been completed.
struct Ring {
  int stage = 0;
  uint32_t round = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      ++round;
    }
  }
  __device__ __forceinline__ void skip(int stages) {
    round += (stage + stages) / kStages;
    stage = (stage + stages) % kStages;
  }
};

// Addresses in the block's shared memory (layout.cuh).
struct Shared {
  uint32_t base;
  __device__ __forceinline__ uint32_t a(int stage) const { return base + stage * kStageBytes; }
  __device__ __forceinline__ uint32_t b(int stage, int set) const {
    return a(stage) + kABytes + set * kBBytes;
  }
  // A row of B as (N, K). REQUIRES: the first row of a pattern of the swizzle.
  __device__ __forceinline__ uint32_t b_row(int stage, int set, int row) const {
    return kPaired ? b(stage, 0) + (row * kSets + set * kPairRows) * kRowBytes
                   : b(stage, set) + row * kRowBytes;
  }
  // A stage's scales: of the tile's rows, then of its blocks of columns.
  __device__ __forceinline__ uint32_t scales(int stage) const {
    return base + kScalesAt + stage * kStageScaleBytes;
  }
  // A stage is full when its copies have arrived, and empty when all warps that share it have read
  // it.
  __device__ __forceinline__ uint32_t full(int stage) const {
    return base + kBarriersAt + stage * 8;
  }
  __device__ __forceinline__ uint32_t empty(int stage) const { return full(kStages + stage); }
  // Pingpong: completes when this warpgroup may multiply, which is when the other one has waited
  // for its last stage. A parity distinguishes a phase only from the one before, so no thread may
  // wait for a stage further ahead.
  __device__ __forceinline__ uint32_t turn(int group) const { return full(2 * kStages + group); }
  // Shared tail: completes when the other block has read its whole ring.
  __device__ __forceinline__ uint32_t drained() const { return turn(2); }
  // Direct: completes when the boxes of a warp's full operand have arrived.
  __device__ __forceinline__ uint32_t boxes(int warp) const { return turn(3 + warp); }
  // Split tiles: complete when a warp's partial sums have arrived, and when they have been read.
  __device__ __forceinline__ uint32_t arrived(int warp) const { return boxes(kWarps + warp); }
  __device__ __forceinline__ uint32_t read(int warp) const { return arrived(kWarps + warp); }
};

// Waits until the products may read the stage.
__device__ __forceinline__ void wait_for_stage(const Shared& shared, const Ring& ring) {
  wait_for(shared.full(ring.stage), ring.round & 1);
  if constexpr (kGathered) writes_before_products();
}

// Tells every block that shares a stage that this warp has read it; each lane tells one block.
struct Readers {
  uint32_t empty;  // the first stage's barrier, in the cluster
  int lane;

  // `alone`: this block loads all of its stages; all of the arrivals go to its own barrier.
  __device__ __forceinline__ Readers(const Shared& shared, int block, int lane, bool alone)
      : empty(cluster_address(shared.empty(0), lane >= kSharers || alone
                                                   ? block
                                                   : block / kSharers * kSharers + lane)),
        lane(lane) {}

  __device__ __forceinline__ void release(int stage) const {
    if (lane < kSharers) barrier_arrive(empty + stage * 8);
  }
};

// Pingpong: the other warpgroup may multiply once all warps of this one have called this.
__device__ __forceinline__ void give_turn(const Shared& shared, int group, int block, int lane) {
  // If k is 0, no product keeps the lanes together: without this, the barrier could complete twice
  // while a lane still waits for its turn.
  __syncwarp();
  if (lane == 0) barrier_arrive(shared.turn(1 - group), block);
}

// Shared tail: each block allows the other one to write to its ring.
__device__ __forceinline__ void leave_ring(const Shared& shared, int split, int lane) {
  __syncwarp();
  if (lane == 0) barrier_arrive(shared.drained(), 1 - split);
  while (!cluster_barrier_passed(shared.drained(), 0)) {
  }
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
