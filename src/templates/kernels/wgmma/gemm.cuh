// The wgmma kernel for weights that are not packed.
#pragma once

#include <type_traits>

#include "wgmma/feed/dense.cuh"
#include "wgmma/feed/scales.cuh"
#include "wgmma/finish/direct.cuh"
#include "wgmma/finish/staged.cuh"
#include "wgmma/kernel.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

using Promoted = std::conditional_t<kScaled, PromotedFeed<BlockScales>, PromotedFeed<NoScales>>;
using Feed = std::conditional_t<kPromote, Promoted, DenseFeed>;
using Finish = std::conditional_t<kDirect, DirectFinish, StagedFinish>;

__device__ __forceinline__ void run(const Params& params, char* memory) {
  run_parts<Feed, Finish>(params, memory);
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
