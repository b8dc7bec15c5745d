// In the place of src/templates/kernels/wgmma/products.cuh.
#pragma once

#include "wgmma/config.cuh"

namespace attacca_wgmma {

template <bool TRANSPOSED_A, bool TRANSPOSED_B, int VALUES>
void multiply(Sum (&d)[VALUES], uint64_t a, uint64_t b, bool add) {
  multiply_group({ELEMENT, VALUES * 2, a, TRANSPOSED_A, b, TRANSPOSED_B, add}, d);
}

}  // namespace attacca_wgmma
