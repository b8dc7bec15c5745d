// The tiles of a grouped product, which each block finds from the ends of the groups: no tile has
// rows of two groups. Groups follow each other, so that blocks that run at the same time share a
// group's weights in L2; within a group tiles are ordered as those of a plain product. The rows
// after the last end come last, as a group that is multiplied by nothing.
#pragma once

#include "grouped/instructions.cuh"
#include "wgmma/pipeline/split.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

class GroupTiles {
 public:
  // REQUIRES: all threads of the block call it.
  __device__ __forceinline__ GroupTiles(const Params& params, char* memory)
      : params_(params),
        ends_(reinterpret_cast<int*>(memory + kGroupsAt)),
        firsts_(ends_ + kMostGroups + 2) {
    const Weights::Params& weights = params.weights;
#pragma unroll 1
    for (int i = threadIdx.x; i < weights.groups; i += kThreads)
      ends_[i] = __ldg(weights.ends + i * weights.stride);
    __syncthreads();
    if (threadIdx.x < 32) number_tiles(threadIdx.x);
    __syncthreads();
  }

  __device__ __forceinline__ int count() const {
    return firsts_[params_.weights.groups + 1];
  }

  // Values of k that a tile's rows are multiplied by.
  __device__ __forceinline__ int k(const Place& at) const {
    return at.group < params_.weights.groups ? params_.k : 0;
  }

  // REQUIRES: no tile before that of the last call.
  __device__ __forceinline__ Place place(const Work& work) {
    if (work.tile >= firsts_[group_ + 1]) find_group(work.tile);
    const int begin = group_ > 0 ? ends_[group_ - 1] : 0, end = ends_[group_];
    TileOrder order = params_.order;
    order.tiles_m = lines(begin, end);
    const TileIndex at = tile_at(order, work.tile - firsts_[group_]);
    return {begin + at.m * kTileM, (at.n * kClusterN + work.sharer) * kTileN, 0, group_, end};
  }

 private:
  static __device__ __forceinline__ int lines(int begin, int end) {
    return (end - begin + kTileM - 1) / kTileM;
  }

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

  // The last group whose first tile is not after `tile`: those before it without rows have no tile.
  __device__ __forceinline__ void find_group(int tile) {
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

  const Params& params_;
  int *ends_, *firsts_;
  int group_ = 0;
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
