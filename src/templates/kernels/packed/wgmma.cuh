// The wgmma kernel for packed weights.
#pragma once

#include <type_traits>

#if SCALE_BITS == 8
#include "packed/whole/feed.cuh"
#elif FOLDED
#include "packed/folded/feed.cuh"
#endif
#include "packed/feed.cuh"
#include "wgmma/finish/staged.cuh"
#include "wgmma/finish/swapped.cuh"
#include "wgmma/kernel.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

using Finish = std::conditional_t<kDirect, SwappedFinish, StagedFinish>;

#if SCALE_BITS == 8
using Feed = WholeFeed;
#elif FOLDED
using Feed = FoldedFeed;
#else
using Feed = PackedFeed;
#endif

__device__ __forceinline__ void run(const Params& params, char* memory) {
  run_parts<Feed, Finish>(params, memory);
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
