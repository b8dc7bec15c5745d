// The PTX instructions that kernels for weights of bytes have beside those of the wgmma kernels.
// The emulator of tests/templates has its own version of this file.
#pragma once

#include "common/device.cuh"
#include "mma/instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

using attacca_mma::load_matrices_transposed;

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
