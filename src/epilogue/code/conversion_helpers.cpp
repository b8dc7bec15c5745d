// Conversions mean what ir/graph/dtype.hpp says, bit for bit, but for a NaN's sign and payload.
// Where the device has an instruction it is used; the other branch is for a host compiler.
#include "epilogue/code/device_helpers.hpp"

namespace attacca::epilogue {
namespace {

constexpr Helper kConversions[] = {
    // 16-bit floats.
    {"attacca_encode_f16", R"(__device__ __forceinline__ uint32_t attacca_encode_f16(float x) {
#ifdef __CUDA_ARCH__
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#else
  const uint32_t bits = __float_as_uint(x);
  const uint32_t sign = (bits >> 16) & 0x8000u, rest = bits & 0x7FFFFFFFu;
  if (rest > 0x7F800000u) return sign | 0x7E00u;
  if (rest < 0x38800000u)  // subnormal: one unit is 2^-24
    return sign | (__float_as_uint(__uint_as_float(rest) + 0.5f) - 0x3F000000u);
  const uint32_t code = (rest + 0xFFFu + ((rest >> 13) & 1u) - 0x38000000u) >> 13;
  return sign | (code > 0x7C00u ? 0x7C00u : code);
#endif
}
)"},
    {"attacca_decode_f16", R"(__device__ __forceinline__ float attacca_decode_f16(uint32_t bits) {
#ifdef __CUDA_ARCH__
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)bits));
  return x;
#else
  const uint32_t sign = (bits & 0x8000u) << 16, rest = (bits & 0x7FFFu) << 13;
  if (rest >= 0x0F800000u) return __uint_as_float(sign | 0x70000000u | rest);
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest) * 5.192296858534828e33f));
#endif
}
)"},
    {"attacca_encode_bf16", R"(__device__ __forceinline__ uint32_t attacca_encode_bf16(float x) {
#ifdef __CUDA_ARCH__
  uint32_t bits;  // with a zero above: one value alone takes four times as long
  asm("cvt.rn.bf16x2.f32 %0, 0f00000000, %1;" : "=r"(bits) : "f"(x));
  return bits;
#else
  const uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (bits >> 16) | 0x40u;
  return (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
#endif
}
)"},
    {"attacca_decode_bf16", R"(__device__ __forceinline__ float attacca_decode_bf16(uint32_t bits) {
  return __uint_as_float(bits << 16);
}
)"},
    // Two at once: `low` is element 0.
    {"attacca_pack_f16",
     R"(__device__ __forceinline__ uint32_t attacca_pack_f16(float low, float high) {
#ifdef __CUDA_ARCH__
  uint32_t bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return attacca_encode_f16(low) | attacca_encode_f16(high) << 16;
#endif
}
)"},
    {"attacca_pack_bf16",
     R"(__device__ __forceinline__ uint32_t attacca_pack_bf16(float low, float high) {
#ifdef __CUDA_ARCH__
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return attacca_encode_bf16(low) | attacca_encode_bf16(high) << 16;
#endif
}
)"},
    // 8-bit floats. f8e4m3 has no infinity: what overflows becomes NaN.
    {"attacca_encode_f8e4m3",
     R"(__device__ __forceinline__ uint32_t attacca_encode_f8e4m3(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  if (!(fabsf(x) <= 464.0f)) return (__float_as_uint(x) >> 24 & 0x80u) | 0x7Fu;
  unsigned short two;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(x));
  return two & 0xFFu;
#else
  const uint32_t bits = __float_as_uint(x), sign = (bits >> 24) & 0x80u, rest = bits & 0x7FFFFFFFu;
  if (rest > 0x43E80000u) return sign | 0x7Fu;
  if (rest < 0x3C800000u)  // subnormal: one unit is 2^-9
    return sign | (__float_as_uint(__uint_as_float(rest) + 16384.0f) - 0x46800000u);
  return sign | ((rest + 0x7FFFFu + ((rest >> 20) & 1u) - 0x3C000000u) >> 20);
#endif
}
)"},
    {"attacca_decode_f8e4m3",
     R"(__device__ __forceinline__ float attacca_decode_f8e4m3(uint32_t bits) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint32_t halves;
  float x;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((unsigned short)bits));
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)halves));
  return x;
#else
  const uint32_t sign = (bits & 0x80u) << 24, rest = (bits & 0x7Fu) << 20;
  if (rest == 0x07F00000u) return __uint_as_float(sign | 0x7FC00000u);
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest) * 1.329227995784916e36f));
#endif
}
)"},
    {"attacca_encode_f8e5m2",
     R"(__device__ __forceinline__ uint32_t attacca_encode_f8e5m2(float x) {
  const uint32_t bits = __float_as_uint(x), sign = (bits >> 24) & 0x80u, rest = bits & 0x7FFFFFFFu;
  if (rest > 0x7F800000u) return sign | 0x7Eu;
  if (rest < 0x38800000u)  // subnormal: one unit is 2^-16
    return sign | (__float_as_uint(__uint_as_float(rest) + 128.0f) - 0x43000000u);
  const uint32_t code = (rest + 0xFFFFFu + ((rest >> 21) & 1u) - 0x38000000u) >> 21;
  return sign | (code > 0x7Cu ? 0x7Cu : code);
}
)"},
    {"attacca_decode_f8e5m2",
     R"(__device__ __forceinline__ float attacca_decode_f8e5m2(uint32_t bits) {
  const uint32_t sign = (bits & 0x80u) << 24, rest = (bits & 0x7Fu) << 21;
  if (rest >= 0x0F800000u) return __uint_as_float(sign | 0x70000000u | rest);
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest) * 5.192296858534828e33f));
}
)"},
    // Rounds to nearest even and stays a float.
    {"attacca_round_f16", R"(__device__ __forceinline__ float attacca_round_f16(float x) {
  return attacca_decode_f16(attacca_encode_f16(x));
}
)"},
    {"attacca_round_bf16", R"(__device__ __forceinline__ float attacca_round_bf16(float x) {
  return attacca_decode_bf16(attacca_encode_bf16(x));
}
)"},
    {"attacca_round_f8e4m3", R"(__device__ __forceinline__ float attacca_round_f8e4m3(float x) {
  return attacca_decode_f8e4m3(attacca_encode_f8e4m3(x));
}
)"},
    {"attacca_round_f8e5m2", R"(__device__ __forceinline__ float attacca_round_f8e5m2(float x) {
  return attacca_decode_f8e5m2(attacca_encode_f8e5m2(x));
}
)"},
    // f64 to f32, rounded to odd: a second rounding to a narrower float is then the only one.
    {"attacca_odd", R"(__device__ __forceinline__ float attacca_odd(double x) {
  const float near = (float)x;
  const double back = near;
  if (back == x || x != x) return near;
  const uint32_t bits = __float_as_uint(near);
  const bool away = (back < 0.0 ? -back : back) > (x < 0.0 ? -x : x);
  return __uint_as_float((away ? bits - 1u : bits) | 1u);
}
)"},
    // NaN stays NaN.
    {"attacca_saturate",
     R"(__device__ __forceinline__ float attacca_saturate(float x, float largest) {
  return x > largest ? largest : x < -largest ? -largest : x;
}
)"},
    // Floats to integers: truncated, then wrapped by way of 64 bits, or clamped; NaN is 0.
    {"attacca_to_s64", R"(__device__ __forceinline__ long long attacca_to_s64(double x) {
  if (x != x) return 0;
  if (x >= 9223372036854775808.0 || x < -9223372036854775808.0) return -9223372036854775807ll - 1;
  return (long long)x;
}
)"},
    {"attacca_to_s32", R"(__device__ __forceinline__ int attacca_to_s32(float x) {
  if (x >= -2147483648.0f && x < 2147483648.0f) return (int)x;
  return (int)(uint32_t)attacca_to_s64(x);
}
__device__ __forceinline__ int attacca_to_s32(double x) {
  return (int)(uint32_t)attacca_to_s64(x);
}
)"},
    {"attacca_clamp_s64", R"(__device__ __forceinline__ long long attacca_clamp_s64(double x) {
  if (x >= 9223372036854775808.0) return 9223372036854775807ll;
  return attacca_to_s64(x);
}
)"},
    {"attacca_clamp_s32", R"(template <class T>
__device__ __forceinline__ int attacca_clamp_s32(T x) {
  if (x != x) return 0;
  return x >= (T)2147483647 ? 2147483647 : x <= (T)(-2147483647 - 1) ? -2147483647 - 1 : (int)x;
}
)"},
    {"attacca_clamp_s8", R"(template <class T>
__device__ __forceinline__ int attacca_clamp_s8(T x) {
  if (x != x) return 0;
  return x >= (T)127 ? 127 : x <= (T)-128 ? -128 : (int)x;
}
)"},
    {"attacca_clamp_u8", R"(template <class T>
__device__ __forceinline__ int attacca_clamp_u8(T x) {
  if (x != x) return 0;
  return x >= (T)255 ? 255 : x <= (T)0 ? 0 : (int)x;
}
)"},
};

}  // namespace

std::span<const Helper> conversion_helpers() {
  return kConversions;
}

}  // namespace attacca::epilogue
