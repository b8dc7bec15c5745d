// Copies a warp's results from shared memory, and the full operand to it, by TMA, box by box in the
// order of the warp's parts of a tile. With a full operand, all its boxes are loaded at once, and
// each is stored from where it was loaded. Otherwise a few buffers take turns: a buffer is used
// again once its copy has read it. No warp waits for another.
#pragma once

#include "common/prefetch.cuh"
#include "wgmma/pipeline/consumer.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

struct WarpBoxes {
  const Params& params;
  char* memory;      // the warp's boxes
  uint32_t address;  // of `memory`
  uint32_t arrived;  // barrier of the full operand's boxes
  int lane;
  int first_row;
  uint32_t tiles = 0;

  // The batch, and this warp's first row and column, of the current tile.
  Place at = {};

  // Of two full operands, threads load the second one.
  static constexpr bool kPrefetchFulls = kFulls > 1;

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

  // The first row and column of a box. Parts follow each other along wgmma's M.
  __device__ __forceinline__ int box_m(int box) const {
    return at.m + (kSwapped ? box / kGroupParts * kBoxM : box % kGroupParts * kPartRows);
  }
  __device__ __forceinline__ int box_n(int box) const {
    return at.n + (kSwapped ? box % kGroupParts * kPartRows : box / kGroupParts * kBoxN);
  }
  __device__ __forceinline__ static int byte_of(int box) { return box % kBoxBuffers * kBoxBytes; }

  // Starts the copies of the full operand's boxes.
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

  // Waits for the full operand's boxes. Without one, waits until the last box of the previous tile
  // has been read if the first box of this tile takes its buffer.
  __device__ __forceinline__ void wait_for_full() {
    if (has_full()) {
      wait_for(arrived, tiles++ & 1);
    } else if (kBoxes % kBoxBuffers != 0 && elected()) {
      results_read<0>();
    }
  }

  // Whether rows of a box belong to the next group, so that no copy may store them.
  __device__ __forceinline__ bool is_cut(int box) const {
    return kGrouped && box_m(box) + kBoxM > end_of_rows(params, at);
  }

  // Whether all of a box's rows do.
  __device__ __forceinline__ bool is_empty(int box) const {
    return kGrouped && box_m(box) >= end_of_rows(params, at);
  }

  // A box is written between make_room() and leave(), which starts its copy. The pairs of a cut box
  // are stored by store_pair() instead.
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
      if (!is_cut(box))
        copy_result(&params.result, address + byte_of(box), box_n(box), box_m(box), at.batch);
      results_commit();
    }
  }

  // Stores the pair of results at (m, n) if it is one of this tile's.
  __device__ __forceinline__ void store_pair(uint32_t pair, int m, int n) const {
    if (m >= end_of_rows(params, at)) return;
    const attacca_operand& result = params.operands.result[0];
    const int valid = min(2, params.n - n);
    if (valid <= 0) return;
    char* const to =
        static_cast<char*>(result.pointer) + offset_of(result, at.batch, m, n) * kResultBytes;
    using Half = attacca_element::Word<kResultBytes>::Type;
    if (valid == 2 && kResultBytes == 2) {
      *reinterpret_cast<uint32_t*>(to) = pair;
      return;
    }
    for (int i = 0; i < valid; ++i)
      reinterpret_cast<Half*>(to)[i] = static_cast<Half>(pair >> i * 8 * kResultBytes);
  }

  // A block must not exit before its results have been read from shared memory.
  __device__ __forceinline__ void end() const {
    if (elected()) results_read<0>();
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
