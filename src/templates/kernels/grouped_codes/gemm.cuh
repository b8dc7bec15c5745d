// The wgmma kernel for grouped products with weights in codes.
#pragma once

#include <type_traits>

#include "grouped/gather.cuh"
#include "grouped/tiles.cuh"
#include "grouped_codes/feed.cuh"
#include "wgmma/finish/staged.cuh"
#include "wgmma/kernel.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

#ifdef GATHERED
using Rows = GatheredRows;
#else
using Rows = BoxRows;
#endif

__device__ __forceinline__ void run(const Params& params, char* memory) {
  run_parts<CodesFeed, StagedFinish, GroupTiles, Rows>(params, memory);
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
