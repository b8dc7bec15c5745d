// In the place of src/templates/kernels/mma/instructions.cuh.
#pragma once

#include "common/device.cuh"
#include "common/element.cuh"

namespace attacca_mma {

inline void multiply_add(Sum (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  multiply_fragments(ELEMENT, c, a, b);
}

}  // namespace attacca_mma
