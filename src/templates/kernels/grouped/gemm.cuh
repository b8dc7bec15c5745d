// The wgmma kernel for grouped products: each group of A's rows is multiplied by its own matrix.
#pragma once

#include <type_traits>

#include "grouped/gather.cuh"
#include "grouped/tiles.cuh"
#include "wgmma/feed/dense.cuh"
#include "wgmma/feed/overlapped.cuh"
#include "wgmma/feed/turns.cuh"
#include "wgmma/finish/direct.cuh"
#include "wgmma/finish/staged.cuh"
#include "wgmma/kernel.cuh"
#if SCALED
#include "wgmma/feed/scales.cuh"
#include "wgmma/feed/staged_scales.cuh"
#endif

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

#if SCALED
using Scales = std::conditional_t<kStagedScales, StagedScales, BlockScales>;
#else
using Scales = NoScales;
#endif
#if defined(OVERLAPPED)
using Promoted = OverlappedFeed<Scales, LAG>;
#elif defined(TURNS)
static_assert(kPromote && kConsumers == 2 && !kSwapped);
using Promoted = TurnsFeed<Scales>;
#else
using Promoted = PromotedFeed<Scales>;
#endif
using Feed = std::conditional_t<kPromote, Promoted, DenseFeed>;
using Finish = std::conditional_t<kDirect, DirectFinish, StagedFinish>;
#ifdef GATHERED
using Rows = GatheredRows;
#else
using Rows = BoxRows;
#endif

__device__ __forceinline__ void run(const Params& params, char* memory) {
  run_parts<Feed, Finish, GroupTiles, Rows>(params, memory);
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
