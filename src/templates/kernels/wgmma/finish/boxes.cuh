// How a warp's results leave shared memory by TMA, and the full operand's come: box by box, each
// part of the warp's share of a tile after the other. The full operand's boxes all come at once,
// and each leaves from where it came; else a box is reused once it was read. No warp waits for
// another one.
#pragma once

#include "common/prefetch.cuh"
#include "wgmma/pipeline/consumer.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

struct WarpBoxes {
  const Params& params;
  char* memory;      // its boxes
  uint32_t address;  // the same
  uint32_t arrived;  // the barrier of boxes copied in
  int lane;
  int first_row;
  uint32_t tiles = 0;

  // Of the tile: its batch, this warp's first row and column.
  Place at = {};

  static constexpr bool kPrefetchFulls = false;

  __device__ __forceinline__ explicit WarpBoxes(const Consumer& consumer)
      : params(consumer.params),
        memory(consumer.own),
        address(shared_address(memory)),
        arrived(consumer.shared.boxes(consumer.warp)),
        lane(consumer.lane),
        first_row(consumer.first_row) {}

  static __device__ __forceinline__ void prefetch_maps(const Params& params) {
    prefetch_map(&params.result);
  }

  __device__ __forceinline__ bool has_full() const {
    return kFulls > 0 && params.operands.full[0].pointer != nullptr;
  }

  // Where a box's first element is. Parts are along what wgmma calls M.
  __device__ __forceinline__ int box_m(int box) const {
    return at.m + (kSwapped ? box / kGroupParts * kBoxM : box % kGroupParts * kPartRows);
  }
  __device__ __forceinline__ int box_n(int box) const {
    return at.n + (kSwapped ? box % kGroupParts * kPartRows : box / kGroupParts * kBoxN);
  }
  __device__ __forceinline__ static int byte_of(int box) { return box % kBoxBuffers * kBoxBytes; }

  // The full operand's boxes begin to come.
  __device__ __forceinline__ void begin(const Place& tile) {
    at = tile;
    if (has_full() && elected()) {
      results_read<0>();
      barrier_expect(arrived, kBoxes * kBoxBytes);
#pragma unroll 1
      for (int box = 0; box < kBoxes; ++box)
        copy_box(address + box * kBoxBytes, &params.full, arrived, box_n(box), box_m(box),
                 at.batch);
    }
  }

  // They have come. Without them, the last tile's last box may lie where this one's first will.
  __device__ __forceinline__ void wait_for_full() {
    if (has_full()) {
      wait_for(arrived, tiles++ & 1);
    } else if (kBoxes % kBoxBuffers != 0 && elected()) {
      results_read<0>();
    }
  }

  // Before a box is written, and after it was.
  __device__ __forceinline__ void make_room() {
    if (!has_full()) {
      if (elected()) results_read<kBoxBuffers - 1>();
      __syncwarp();
    }
  }
  __device__ __forceinline__ void leave(int box) {
    writes_before_copies();
    __syncwarp();
    if (elected()) {
      copy_result(&params.result, address + byte_of(box), box_n(box), box_m(box), at.batch);
      results_commit();
    }
  }

  // No block may leave before its results are read.
  __device__ __forceinline__ void end() const {
    if (elected()) results_read<0>();
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
