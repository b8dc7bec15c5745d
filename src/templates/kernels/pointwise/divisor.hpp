// Division by a number that the host knows, as a product and a shift (Granlund and Montgomery,
// Division by Invariant Integers using Multiplication, 1994).
#pragma once

#include <cstdint>

namespace attacca_pointwise {

// x / divisor is (high half of x * multiplier + x) >> shift, for x below 2^31.
struct Divisor {
  uint32_t divisor, multiplier, shift;
};

// REQUIRES: 1 <= divisor < 2^31.
inline Divisor make_divisor(uint32_t divisor) {
  uint32_t shift = 0;
  while ((uint64_t{1} << shift) < divisor) ++shift;
  const uint64_t power = (uint64_t{1} << shift) - divisor;
  return {divisor, static_cast<uint32_t>((power << 32) / divisor + 1), shift};
}

}  // namespace attacca_pointwise
