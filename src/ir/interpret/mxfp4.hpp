// Weights in MXFP4: 4-bit codes with one scale for 32 of them along the last axis.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace attacca::ir {

// Codes that share a scale. A byte has two codes, the first in its lower half.
inline constexpr int64_t kMxFp4Block = 32;

// e2m1: a sign, two bits of exponent, one of mantissa; the lowest 4 bits of `code`.
inline double mxfp4_code(int64_t code) {
  constexpr double kSizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const double size = kSizes[code & 7];
  return code & 8 ? -size : size;
}

// e8m0: a power of two; 255 is NaN.
inline double mxfp4_scale(int64_t scale) {
  if (scale == 255) return std::numeric_limits<double>::quiet_NaN();
  return std::ldexp(1.0, static_cast<int>(scale) - 127);
}

// bf16 holds every value but those that overflow f32.
inline double mxfp4_value(int64_t code, int64_t scale) {
  return mxfp4_code(code) * mxfp4_scale(scale);
}

}  // namespace attacca::ir
