// A warp of a warpgroup that multiplies: its place in the block. Feed and Finish are made from it.
#pragma once

#include "wgmma/pipeline/ring.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

struct Consumer {
  const Params& params;
  const Shared& shared;
  char* memory;  // the block's shared memory
  int block, lane, warp, group;
  char* own;      // this warp's buffer for results
  int first_row;  // this warp's first row (swapped: column) of the tile

  __device__ __forceinline__ Consumer(const Params& params, const Shared& shared, char* memory,
                                      int block, int thread)
      : params(params),
        shared(shared),
        memory(memory),
        block(block),
        lane(thread % 32),
        warp(warp_uniform(thread / 32)),
        group(warp / 4) {
    own = memory + kSlicesAt + warp * kWarpBytes;
    first_row = (kPingpong ? 0 : group * kGroupParts * kPartSide) + warp % 4 * kWarpRows;
  }

  // This warpgroup's first part of a tile.
  __device__ __forceinline__ int first_part() const { return kPingpong ? 0 : group * kGroupParts; }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
