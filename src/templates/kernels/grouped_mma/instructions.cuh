// The PTX instructions of the mma kernels that the grouped ones' copies use. The emulator of
// tests/templates has its own version of this file.
#pragma once

#include "mma/instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_grouped_mma {

using attacca_mma::copy_async;
using attacca_mma::shared_address;

}  // namespace attacca_grouped_mma

#endif  // ATTACCA_DEVICE_CODE
