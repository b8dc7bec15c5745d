// The wgmma kernel for weights of bytes.
#pragma once

#include <type_traits>

#include "wgmma/finish/staged.cuh"
#include "wgmma/finish/swapped.cuh"
#include "wgmma/kernel.cuh"
#include "wide/feed.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

using Finish = std::conditional_t<kDirect, SwappedFinish, StagedFinish>;

__device__ __forceinline__ void run(const Params& params, char* memory) {
  run_parts<BytesFeed, Finish>(params, memory);
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
