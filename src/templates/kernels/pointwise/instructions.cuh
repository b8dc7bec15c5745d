// The machine instructions of the pointwise kernels. The emulator of tests/templates has its own.
#pragma once

#include "common/device.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_pointwise {

// Launched while the kernel before ends: what that one writes is there when this returns.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if POINTWISE_DEPENDENT
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace attacca_pointwise

#endif  // ATTACCA_DEVICE_CODE
