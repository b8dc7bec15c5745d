// The tiles of a grouped product (grouped/table.cuh), for the wgmma kernel. Within a group they are
// ordered as those of a plain product.
#pragma once

#include "grouped/table.cuh"
#include "wgmma/pipeline/split.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

static_assert(kGroupsBytes == attacca_groups::table_bytes(kMostGroups));

class GroupTiles : public attacca_groups::Table<Params, kClusterM * kTileM, kMostGroups, kThreads> {
 public:
  // REQUIRES: all threads of the block call it.
  __device__ __forceinline__ GroupTiles(const Params& params, char* memory)
      : Table(params, memory + kGroupsAt) {}

  // Values of k that a tile's rows are multiplied by.
  __device__ __forceinline__ int k(const Place& at) const {
    return at.group < params_.weights.groups ? params_.k : 0;
  }

  // REQUIRES: no tile before that of the last call.
  __device__ __forceinline__ Place place(const Work& work) {
    if (work.tile >= end_tile()) find(work.tile);
    const int begin = this->begin(), end = this->end();
    TileOrder order = params_.order;
    order.tiles_m = lines(begin, end);
    const TileIndex at = tile_at(order, work.tile - first_tile());
    const int rows = kFitted ? even_share(end - begin, order.tiles_m * kClusterM) : kTileM;
    const int m = begin + (at.m * kClusterM + work.sharer % kClusterM) * rows;
    return {m, (at.n * kClusterN + work.sharer / kClusterM) * kTileN, 0, group(),
            min(end, m + rows)};
  }

 private:
  // The rows of each of so many tiles, at most kTileM.
  static __device__ __forceinline__ int even_share(int rows, int tiles) {
    const int share = (rows + tiles - 1) / tiles;
    return (share + kFitRows - 1) / kFitRows * kFitRows;
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
