// A warp of a warpgroup that multiplies: its place in the block, and what Feed and Finish are made
// with.
#pragma once

#include "wgmma/pipeline/ring.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

struct Consumer {
  const Params& params;
  const Shared& shared;
  char* memory;  // the block's
  int block, lane, warp, group;
  char* own;      // where what this warp finishes lies
  int first_row;  // of this warp's first accumulator along wgmma's M, as the problem counts

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
