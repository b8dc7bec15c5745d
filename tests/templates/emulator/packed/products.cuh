// In the place of src/templates/kernels/packed/products.cuh.
#pragma once

#include "wgmma/config.cuh"

namespace attacca_wgmma {

template <int VALUES>
void multiply(Sum (&d)[VALUES], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (kElementBytes == 1) {
    multiply_group_bytes(VALUES * 2, a, b, d);
  } else {
    multiply_group_fragments(attacca_packed_weights::kBf16, VALUES * 2, a, b, d);
  }
}

}  // namespace attacca_wgmma
