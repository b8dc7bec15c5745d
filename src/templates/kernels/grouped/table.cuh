// The table of tiles of a grouped product, which each block makes in its shared memory from the
// ends of the groups: no tile has rows of two groups. Groups follow each other, so that blocks that
// run at the same time share a group's weights in L2. The rows after the last end come last, as a
// group that is multiplied by nothing.
#pragma once

#include "grouped/groups.cuh"
#include "grouped/lanes.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_groups {

// Of tiles of TILE_ROWS rows, in a block of THREADS threads. MOST: the most groups. The kernel's
// Params have the number of rows, `m`; the tiles side by side, `order.tiles_n`; Groups, `weights`.
template <class Params, int TILE_ROWS, int MOST, int THREADS>
class Table {
 public:
  // REQUIRES: all threads of the block call it; `memory` has table_bytes(MOST).
  __device__ __forceinline__ Table(const Params& params, char* memory)
      : params_(params), ends_(reinterpret_cast<int*>(memory)), firsts_(ends_ + MOST + 2) {
    const Groups& groups = params.weights;
#pragma unroll 1
    for (int i = threadIdx.x; i < groups.groups; i += THREADS)
      ends_[i] = __ldg(groups.ends + i * groups.stride);
    __syncthreads();
    if (threadIdx.x < 32) number_tiles(threadIdx.x);
    __syncthreads();
  }

  __device__ __forceinline__ int count() const {
    return firsts_[params_.weights.groups + 1];
  }

  // Finds the tile's group: the last one whose first tile is not after it. Those before it without
  // rows have no tile. REQUIRES: the tile is not before end_tile().
  __device__ __forceinline__ void find(int tile) {
    int least = group_ + 1, most = params_.weights.groups;
    while (least < most) {
      const int middle = (least + most + 1) / 2;
      if (firsts_[middle] <= tile) {
        least = middle;
      } else {
        most = middle - 1;
      }
    }
    group_ = least;
  }

  // Of the group that was found last, or else the first one: its number, its rows, its tiles.
  __device__ __forceinline__ int group() const {
    return group_;
  }
  __device__ __forceinline__ int begin() const {
    return group_ > 0 ? ends_[group_ - 1] : 0;
  }
  __device__ __forceinline__ int end() const {
    return ends_[group_];
  }
  __device__ __forceinline__ int first_tile() const {
    return firsts_[group_];
  }
  __device__ __forceinline__ int end_tile() const {
    return firsts_[group_ + 1];
  }

  static __device__ __forceinline__ int lines(int begin, int end) {
    return (end - begin + TILE_ROWS - 1) / TILE_ROWS;
  }

 protected:
  const Params& params_;

 private:
  // Makes each end at least the one before it, and at most the number of rows, and numbers the
  // tiles. Of one warp.
  __device__ __forceinline__ void number_tiles(int lane) const {
    const int groups = params_.weights.groups, across = params_.order.tiles_n;
    int begin = 0, tiles = 0;
#pragma unroll 1
    for (int first = 0; first <= groups; first += 32) {
      const int group = first + lane;
      int end = max(begin, min(group < groups ? ends_[group] : params_.m, params_.m));
#pragma unroll
      for (int step = 1; step < 32; step *= 2) end = max(end, lane_before(end, step));
      const int before = lane_before(end, 1);
      const int own = group <= groups ? lines(lane > 0 ? before : begin, end) * across : 0;
      int sum = own;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int others = lane_before(sum, step);
        if (lane >= step) sum += others;
      }
      if (group <= groups) {
        ends_[group] = end;
        firsts_[group] = tiles + sum - own;
        if (group == groups) firsts_[group + 1] = tiles + sum;
      }
      begin = last_lane(end);
      tiles += last_lane(sum);
    }
  }

  int *ends_, *firsts_;
  int group_ = 0;
};

}  // namespace attacca_groups

#endif  // ATTACCA_DEVICE_CODE
