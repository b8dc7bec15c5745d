// The PTX instructions of the pointwise kernels. The emulator of tests/templates has its own
// version of this file.
#pragma once

#include "common/device.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_pointwise {

// Waits until the previous kernel has ended and its writes are visible, in kernels that are
// launched before that.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if POINTWISE_DEPENDENT
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace attacca_pointwise

#endif  // ATTACCA_DEVICE_CODE
