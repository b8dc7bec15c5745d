// The wgmma kernel for weights that are not packed.
#pragma once

#include <type_traits>

#include "wgmma/feed/dense.cuh"
#include "wgmma/feed/overlapped.cuh"
#include "wgmma/feed/scales.cuh"
#include "wgmma/feed/staged_scales.cuh"
#include "wgmma/feed/turns.cuh"
#include "wgmma/finish/direct.cuh"
#include "wgmma/finish/staged.cuh"
#include "wgmma/kernel.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

#if defined(OVERLAPPED)
using Promoted = OverlappedFeed<std::conditional_t<kScaled, StagedScales, NoScales>, LAG>;
#elif defined(TURNS)
static_assert(kPromote && kConsumers == 2 && !kSwapped);
using Promoted = TurnsFeed<std::conditional_t<kScaled, StagedScales, NoScales>>;
#else
using Promoted = PromotedFeed<std::conditional_t<kScaled, BlockScales, NoScales>>;
#endif
using Feed = std::conditional_t<kPromote, Promoted, DenseFeed>;
using Finish = std::conditional_t<kDirect, DirectFinish, StagedFinish>;

__device__ __forceinline__ void run(const Params& params, char* memory) {
  run_parts<Feed, Finish>(params, memory);
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
