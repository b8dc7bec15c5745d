// The CUDA declarations that a host compiler needs for emitted CUDA C++.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#define ATTACCA_FIXED_WIDTH_TYPES
#define __device__
#define __forceinline__ inline
#define __noinline__ inline

// The approximate instructions, with errors as parts of the largest that the PTX manual allows.
inline double attacca_shim_exp2_error = 0, attacca_shim_rcp_error = 0;

inline float attacca_shim_exp2(float x) {
  return static_cast<float>(std::exp2(double(x)) * (1 + attacca_shim_exp2_error * 0x1p-22));
}
#define exp2f attacca_shim_exp2
inline float __frcp_rn(float x) {
  return static_cast<float>(1.0 / x * (1 + attacca_shim_rcp_error * 0x1p-23));
}
inline float __fdividef(float x, float y) {
  return static_cast<float>(double(x) / y * (1 + attacca_shim_rcp_error * 0x1p-22));
}

template <class T>
T __ldg(const T* at) {
  return *at;
}
inline uint32_t __float_as_uint(float x) {
  return std::bit_cast<uint32_t>(x);
}
inline float __uint_as_float(uint32_t x) {
  return std::bit_cast<float>(x);
}
inline double __longlong_as_double(long long x) {
  return std::bit_cast<double>(x);
}
inline float __fadd_rn(float x, float y) {
  return x + y;
}
inline float __fsub_rn(float x, float y) {
  return x - y;
}
inline float __fmul_rn(float x, float y) {
  return x * y;
}
inline float __fdiv_rn(float x, float y) {
  return x / y;
}
inline float __fsqrt_rn(float x) {
  return sqrtf(x);
}
