// In the place of src/templates/kernels/packed/pair_instructions.cuh.
#pragma once

#include "common/device.cuh"
#include "packed/codes.cuh"

namespace attacca_packed_weights {

inline uint32_t multiply_add_pair(uint32_t a, uint32_t b, uint32_t c) {
  return ::multiply_add_pair(kBf16, a, b, c);
}
inline uint32_t pair_of_floats(float low, float high) {
  return ::pair_of_floats(kBf16, low, high);
}

}  // namespace attacca_packed_weights
