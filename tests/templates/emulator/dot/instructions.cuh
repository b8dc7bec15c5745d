// In the place of src/templates/kernels/dot/instructions.cuh.
#pragma once

#include "common/chunk.cuh"
#include "common/device.cuh"

namespace attacca_dot {

inline void load_once(const void* at, uint32_t (&word)[4]) {
  load_four(at, word);
}
inline float number_of(uint16_t bits) {
  return __uint_as_float(uint32_t{bits} << 16);
}
inline void numbers_of(uint32_t pair, float& low, float& high) {
  low = __uint_as_float(pair << 16);
  high = __uint_as_float(pair & 0xffff0000);
}

}  // namespace attacca_dot
