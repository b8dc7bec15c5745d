// The wgmma kernel for packed weights.
#pragma once

#include <type_traits>

#include "packed/feed.cuh"
#include "wgmma/finish/staged.cuh"
#include "wgmma/finish/swapped.cuh"
#include "wgmma/kernel.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

using Finish = std::conditional_t<kDirect, SwappedFinish, StagedFinish>;

__device__ __forceinline__ void run(const Params& params, char* memory) {
  run_parts<PackedFeed, Finish>(params, memory);
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
