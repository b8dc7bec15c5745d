// The ring of stages in shared memory, its barriers, and who passes them.
#pragma once

#include "wgmma/tiles.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// Which stage comes next, and how often the ring was walked.
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

struct Shared {
  uint32_t base;
  __device__ __forceinline__ uint32_t a(int stage) const { return base + stage * kStageBytes; }
  __device__ __forceinline__ uint32_t b(int stage, int set) const {
    return a(stage) + kABytes + set * kBBytes;
  }
  // Of a row of B as (N, K), the first of a swizzle's pattern.
  __device__ __forceinline__ uint32_t b_row(int stage, int set, int row) const {
    return kPaired ? b(stage, 0) + (row * kSets + set * kPairRows) * kRowBytes
                   : b(stage, set) + row * kRowBytes;
  }
  // A stage is full when its copies have come, empty when all warps that share it have read it.
  __device__ __forceinline__ uint32_t full(int stage) const {
    return base + kBarriersAt + stage * 8;
  }
  __device__ __forceinline__ uint32_t empty(int stage) const { return full(kStages + stage); }
  // Pingpong: a warpgroup's turn to multiply, when the other one has waited for its last stage. A
  // barrier distinguishes a phase only from the one before, so no thread may wait for a stage
  // further ahead.
  __device__ __forceinline__ uint32_t turn(int group) const { return full(2 * kStages + group); }
  // Shared tail: the other block has read all of its ring.
  __device__ __forceinline__ uint32_t drained() const { return turn(2); }
  // Direct: the boxes of the full operand of a warp have come.
  __device__ __forceinline__ uint32_t boxes(int warp) const { return turn(3 + warp); }
  // Split: a warp's partial sums have come; were read.
  __device__ __forceinline__ uint32_t arrived(int warp) const { return boxes(kWarps + warp); }
  __device__ __forceinline__ uint32_t read(int warp) const { return arrived(kWarps + warp); }
};

// Reports to every block that shares a stage that this warp has read it, one lane to each block.
struct Readers {
  uint32_t empty;  // the cluster's address of that of the first stage
  int lane;

  // `alone`: this block loads all of its stages; its own barrier then gets every arrival.
  __device__ __forceinline__ Readers(const Shared& shared, int block, int lane, bool alone)
      : empty(cluster_address(shared.empty(0), lane >= kSharers || alone
                                                   ? block
                                                   : block / kSharers * kSharers + lane)),
        lane(lane) {}

  __device__ __forceinline__ void release(int stage) const {
    if (lane < kSharers) barrier_arrive(empty + stage * 8);
  }
};

// Pingpong: the other warpgroup may multiply when all warps of this one say so.
__device__ __forceinline__ void give_turn(const Shared& shared, int group, int block, int lane) {
  // Without a product, a lane may still wait for its own turn, which must not pass twice.
  __syncwarp();
  if (lane == 0) barrier_arrive(shared.turn(1 - group), block);
}

// A shared tail: this block's ring is the other one's to write to, and the other way round.
__device__ __forceinline__ void leave_ring(const Shared& shared, int split, int lane) {
  __syncwarp();
  if (lane == 0) barrier_arrive(shared.drained(), 1 - split);
  while (!cluster_barrier_passed(shared.drained(), 0)) {
  }
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
