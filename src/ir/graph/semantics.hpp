// Functions that the op table's reference formulas call. Doubles follow IEEE 754; int64_t wraps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace attacca::ir::sem {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kSqrtHalf = 1.0 / std::numbers::sqrt2;
inline constexpr double kSqrt2OverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
// Klambauer et al., Self-Normalizing Neural Networks, 2017. Macros: rules and emitted code have
// them as text, ATTACCA_TEXT_OF(ATTACCA_SELU_ALPHA).
#define ATTACCA_SELU_ALPHA 1.6732632423543772848
#define ATTACCA_SELU_SCALE 1.0507009873554804934
#define ATTACCA_TEXT(TOKENS) #TOKENS
#define ATTACCA_TEXT_OF(MACRO) ATTACCA_TEXT(MACRO)
inline constexpr double kSeluAlpha = ATTACCA_SELU_ALPHA;
inline constexpr double kSeluScale = ATTACCA_SELU_SCALE;

inline int64_t wrap(uint64_t x) {
  return static_cast<int64_t>(x);
}
inline uint64_t bits(int64_t x) {
  return static_cast<uint64_t>(x);
}

inline double add(double x, double y) {
  return x + y;
}
inline double sub(double x, double y) {
  return x - y;
}
inline double mul(double x, double y) {
  return x * y;
}
inline double div(double x, double y) {
  return x / y;
}
inline double neg(double x) {
  return -x;
}
inline double abs(double x) {
  return std::fabs(x);
}
inline double pow(double x, double y) {
  return std::pow(x, y);
}
inline double fmod(double x, double y) {
  return std::fmod(x, y);
}
inline int64_t add(int64_t x, int64_t y) {
  return wrap(bits(x) + bits(y));
}
inline int64_t sub(int64_t x, int64_t y) {
  return wrap(bits(x) - bits(y));
}
inline int64_t mul(int64_t x, int64_t y) {
  return wrap(bits(x) * bits(y));
}
inline int64_t neg(int64_t x) {
  return wrap(0 - bits(x));
}
inline int64_t abs(int64_t x) {
  return x < 0 ? neg(x) : x;
}
// Truncates toward zero; division by zero gives 0, and MIN / -1 wraps.
inline int64_t div(int64_t x, int64_t y) {
  if (y == 0) return 0;
  return y == -1 ? neg(x) : x / y;
}
// The exact remainder, with the dividend's sign; a divisor of 0 gives 0.
inline int64_t fmod(int64_t x, int64_t y) {
  return y == 0 || y == -1 ? 0 : x % y;
}
// Wraps; a negative exponent truncates toward zero.
inline int64_t pow(int64_t x, int64_t y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  uint64_t result = 1, base = bits(x);
  for (uint64_t e = bits(y); e; e >>= 1, base *= base)
    if (e & 1) result *= base;
  return wrap(result);
}

// NaN stays NaN; min > max gives max, as torch.clamp.
inline double clamp(double x, double min, double max) {
  const double low = x < min ? min : x;
  return low > max ? max : low;
}
inline int64_t saturated(double x) {
  if (x >= 0x1p63) return std::numeric_limits<int64_t>::max();
  return x <= -0x1p63 ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(x);
}
// Compared as integers: not every one has a double of its own.
inline int64_t clamp(int64_t x, double min, double max) {
  const int64_t low = std::isnan(min) ? x : std::max(x, saturated(std::ceil(min)));
  return std::isnan(max) ? low : std::min(low, saturated(std::floor(max)));
}

inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
// log(1 + exp(x)) without overflow.
inline double softplus(double x) {
  return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x)));
}
inline double clamped_swiglu(double gate, double linear, double alpha, double limit, double one) {
  const double g = gate > limit ? limit : gate;
  return g * sigmoid(alpha * g) * (clamp(linear, -limit, limit) + one);
}

}  // namespace attacca::ir::sem
