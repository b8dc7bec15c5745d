// In the place of src/templates/kernels/packed/instructions.cuh.
#pragma once

#include "common/device.cuh"
#include "common/prefetch.cuh"
#include "packed/pair_instructions.cuh"

namespace attacca_packed_weights {

inline void multiply_first(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  for (float& value : c) value = 0;
  multiply_halves(kBf16, c, a, {b0, b1});
}
inline void multiply_more(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  multiply_halves(kBf16, c, a, {b0, b1});
}

}  // namespace attacca_packed_weights
