// Values of other lanes of a warp. The emulator of tests/templates has its own version of this
// file.
#pragma once

#include "common/device.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_groups {

// The value of the lane `distance` before this one; the first lanes keep their own.
__device__ __forceinline__ int lane_before(int value, int distance) {
  return __shfl_up_sync(0xffffffff, value, distance);
}
__device__ __forceinline__ int last_lane(int value) {
  return __shfl_sync(0xffffffff, value, 31);
}

}  // namespace attacca_groups

#endif  // ATTACCA_DEVICE_CODE
