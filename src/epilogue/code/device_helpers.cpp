// Conversions mean what ir/graph/dtype.hpp says, bit for bit, but for a NaN's sign and payload.
// Where the device has an instruction it is used; the other branch is for a host compiler.
#include "epilogue/code/device_helpers.hpp"

#include "ir/graph/semantics.hpp"

namespace attacca::epilogue {
namespace {

constexpr Helper kHelpers[] = {
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
    // Approximations: ex2 is within 2^-22 of the result, rcp within one unit in the last place, div
    // within two.
    {"attacca_fast_exp2", R"(__device__ __forceinline__ float attacca_fast_exp2(float x) {
#ifdef __CUDA_ARCH__
  float result;
  asm("ex2.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}
)"},
    {"attacca_fast_exp", R"(__device__ __forceinline__ float attacca_fast_exp(float x) {
  return attacca_fast_exp2(x * 1.44269504f);
}
)"},
    {"attacca_fast_rcp", R"(__device__ __forceinline__ float attacca_fast_rcp(float x) {
#ifdef __CUDA_ARCH__
  float result;
  asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return __frcp_rn(x);
#endif
}
)"},
    // The same, subnormal arguments and results taken for 0: two to three instructions fewer.
    {"attacca_flushed_exp2", R"(__device__ __forceinline__ float attacca_flushed_exp2(float x) {
#ifdef __CUDA_ARCH__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  const float result = exp2f(x);
  return result < 1.17549435e-38f ? 0.0f : result;
#endif
}
)"},
    {"attacca_flushed_rcp", R"(__device__ __forceinline__ float attacca_flushed_rcp(float x) {
#ifdef __CUDA_ARCH__
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  const float result = __frcp_rn(x);
  return fabsf(result) < 1.17549435e-38f ? 0.0f : result;
#endif
}
)"},
    // 1 / (1 + 2^(x + 24)), with both terms scaled by 2^-24: no reciprocal that counts is
    // subnormal.
    {"attacca_fast_logistic2", R"(__device__ __forceinline__ float attacca_fast_logistic2(float x) {
  return 5.9604645e-08f * attacca_flushed_rcp(5.9604645e-08f + attacca_flushed_exp2(x));
}
)"},
    // 2^(c x) with c = high + low, and 1 / (1 + it): the first within 2^-21.6 of the result, the
    // second within 2^-21; 0, infinity or NaN where it, or the argument, is not normal.
    {"attacca_narrow_exp2",
     R"(__device__ __forceinline__ float attacca_narrow_exp2(float x, float high, float low) {
  const float a = __fmul_rn(high, x), rest = fmaf(low, x, fmaf(high, x, -a));
  const float e = attacca_flushed_exp2(a);
  return fmaf(__fmul_rn(e, 0.693147182f), rest, e);
}
)"},
    {"attacca_narrow_logistic2",
     R"(__device__ __forceinline__ float attacca_narrow_logistic2(float x, float high, float low) {
  return attacca_flushed_rcp(__fadd_rn(1.0f, attacca_narrow_exp2(x, high, low)));
}
)"},
    {"attacca_fast_div", R"(__device__ __forceinline__ float attacca_fast_div(float x, float y) {
#ifdef __CUDA_ARCH__
  float result;
  asm("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
#else
  return __fdividef(x, y);
#endif
}
)"},
    {"attacca_fast_sigmoid", R"(__device__ __forceinline__ float attacca_fast_sigmoid(float x) {
  return attacca_fast_logistic2(x * -1.44269504f - 24.0f);
}
)"},
    // The normal distribution's integral. log2 of it, left of 0, is nearly a polynomial: this one
    // is within 2^-18 max(1, x^2) of the result's own size as far as normal f32 reach, and 0
    // beyond.
    {"attacca_fast_phi", R"(__device__ __forceinline__ float attacca_fast_phi(float x) {
  const float a = fabsf(x);
  float log2_tail = -1.2321956e-09f;
  log2_tail = log2_tail * a + 1.0728444e-07f;
  log2_tail = log2_tail * a - 3.8826993e-06f;
  log2_tail = log2_tail * a + 7.84183e-05f;
  log2_tail = log2_tail * a - 0.0009991069f;
  log2_tail = log2_tail * a + 0.008646787f;
  log2_tail = log2_tail * a - 0.054085936f;
  log2_tail = log2_tail * a - 0.4584263f;
  log2_tail = log2_tail * a - 1.1512511f;
  log2_tail = log2_tail * a - 0.9999955f;
  const float tail = attacca_flushed_exp2(log2_tail);
  return x < 0.0f ? tail : 1.0f - tail;
}
)"},
    // tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2), which neither cancels nor, below 20,
    // overflows.
    {"attacca_fast_mish", R"(__device__ __forceinline__ float attacca_fast_mish(float x) {
  const float e = attacca_fast_exp(x), n = e * (e + 2.0f);
  return x > 20.0f ? x : x * n * attacca_flushed_rcp(n + 2.0f);
}
)"},
    {"attacca_mish", R"(__device__ __forceinline__ float attacca_mish(float x) {
  const float e = expf(x), n = e * (e + 2.0f);
  return x > 20.0f ? x : x * (n / (n + 2.0f));
}
)"},
    {"attacca_sigmoid", R"(__device__ __forceinline__ float attacca_sigmoid(float x) {
  const float e = expf(-fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
)"},
    // What the references of the op table share (ir/graph/semantics.hpp).
    {"attacca_sem_kInfinity",
     R"(#define attacca_sem_kInfinity __longlong_as_double(0x7FF0000000000000ll)
)"},
    {"attacca_sem_kSqrtHalf", R"(#define attacca_sem_kSqrtHalf 0.70710678118654746
)"},
    {"attacca_sem_kSqrt2OverPi", R"(#define attacca_sem_kSqrt2OverPi 0.79788456080286541
)"},
    {"attacca_sem_kSeluAlpha",
     "#define attacca_sem_kSeluAlpha " ATTACCA_TEXT_OF(ATTACCA_SELU_ALPHA) "\n"},
    {"attacca_sem_kSeluScale",
     "#define attacca_sem_kSeluScale " ATTACCA_TEXT_OF(ATTACCA_SELU_SCALE) "\n"},
    {"attacca_sem_add",
     R"(__device__ __forceinline__ double attacca_sem_add(double x, double y) { return x + y; }
__device__ __forceinline__ long long attacca_sem_add(long long x, long long y) {
  return (long long)((unsigned long long)x + (unsigned long long)y);
}
)"},
    {"attacca_sem_sub",
     R"(__device__ __forceinline__ double attacca_sem_sub(double x, double y) { return x - y; }
__device__ __forceinline__ long long attacca_sem_sub(long long x, long long y) {
  return (long long)((unsigned long long)x - (unsigned long long)y);
}
)"},
    {"attacca_sem_mul",
     R"(__device__ __forceinline__ double attacca_sem_mul(double x, double y) { return x * y; }
__device__ __forceinline__ long long attacca_sem_mul(long long x, long long y) {
  return (long long)((unsigned long long)x * (unsigned long long)y);
}
)"},
    {"attacca_sem_neg",
     R"(__device__ __forceinline__ double attacca_sem_neg(double x) { return -x; }
__device__ __forceinline__ long long attacca_sem_neg(long long x) {
  return (long long)(0ull - (unsigned long long)x);
}
)"},
    {"attacca_sem_abs",
     R"(__device__ __forceinline__ double attacca_sem_abs(double x) { return fabs(x); }
__device__ __forceinline__ long long attacca_sem_abs(long long x) {
  return x < 0 ? (long long)(0ull - (unsigned long long)x) : x;
}
)"},
    {"attacca_sem_div",
     R"(__device__ __forceinline__ double attacca_sem_div(double x, double y) { return x / y; }
__device__ __forceinline__ long long attacca_sem_div(long long x, long long y) {
  if (y == 0) return 0;
  return y == -1 ? (long long)(0ull - (unsigned long long)x) : x / y;
}
)"},
    {"attacca_sem_fmod",
     R"(__device__ __forceinline__ double attacca_sem_fmod(double x, double y) {
  return fmod(x, y);
}
__device__ __forceinline__ long long attacca_sem_fmod(long long x, long long y) {
  return y == 0 || y == -1 ? 0 : x % y;
}
)"},
    {"attacca_sem_pow",
     R"(__device__ __forceinline__ double attacca_sem_pow(double x, double y) { return pow(x, y); }
__device__ __forceinline__ long long attacca_sem_pow(long long x, long long y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  unsigned long long result = 1, base = (unsigned long long)x;
  for (unsigned long long e = (unsigned long long)y; e; e >>= 1, base *= base)
    if (e & 1) result *= base;
  return (long long)result;
}
)"},
    {"attacca_sem_saturated",
     R"(__device__ __forceinline__ long long attacca_sem_saturated(double x) {
  if (x >= 9223372036854775808.0) return 9223372036854775807ll;
  return x <= -9223372036854775808.0 ? -9223372036854775807ll - 1 : (long long)x;
}
)"},
    {"attacca_sem_clamp",
     R"(__device__ __forceinline__ double attacca_sem_clamp(double x, double min, double max) {
  const double low = x < min ? min : x;
  return low > max ? max : low;
}
__device__ __forceinline__ long long attacca_sem_clamp(long long x, double min, double max) {
  const long long low = (double)x < min ? attacca_sem_saturated(ceil(min)) : x;
  return (double)low > max ? attacca_sem_saturated(floor(max)) : low;
}
)"},
    {"attacca_sem_sigmoid",
     R"(__device__ __forceinline__ double attacca_sem_sigmoid(double x) {
  return 1 / (1 + exp(-x));
}
)"},
    {"attacca_sem_softplus", R"(__device__ __forceinline__ double attacca_sem_softplus(double x) {
  return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}
)"},
    {"attacca_sem_clamped_swiglu",
     R"(__device__ __forceinline__ double attacca_sem_clamped_swiglu(
    double gate, double linear, double alpha, double limit, double one) {
  const double g = gate > limit ? limit : gate;
  return g * attacca_sem_sigmoid(alpha * g) * (attacca_sem_clamp(linear, -limit, limit) + one);
}
)"},
    // Operands that the body reaches itself.
    {"attacca_amax_bits",
     R"(__device__ __forceinline__ uint32_t attacca_amax_bits(float x) {
  return x != x ? 0x7FC00000u : __float_as_uint(x) & 0x7FFFFFFFu;
}
)"},
    {"attacca_inside",
     R"(__device__ __forceinline__ bool attacca_inside(
    const attacca_hole_context* context, int row, int column) {
  return row < context->rows && column < context->columns;
}
)"},
    {"attacca_element_of",
     R"(__device__ __forceinline__ long long attacca_element_of(
    const attacca_operand& operand, int row, int column, int batch) {
  return batch * operand.batch_stride + row * operand.row_stride + column * operand.column_stride;
}
)"},
    {"attacca_load", R"(template <class T>
__device__ __forceinline__ T attacca_load(
    const attacca_hole_context* context, int index, int row, int column, int batch) {
  if (!attacca_inside(context, row, column)) return (T)0;
  const attacca_operand& operand = context->operand[index];
  return ((const T*)operand.pointer)[attacca_element_of(operand, row, column, batch)];
}
)"},
    {"attacca_ones", R"(template <class T>
__device__ __forceinline__ T attacca_ones() { return (T)-1; }
template <>
__device__ __forceinline__ float attacca_ones<float>() { return __uint_as_float(~0u); }
template <>
__device__ __forceinline__ double attacca_ones<double>() { return __longlong_as_double(-1); }
)"},
    // The row that an index names; -1: none. Here and below nothing branches, so that the loads of
    // all elements overlap: what must not be loaded is loaded from elsewhere.
    {"attacca_named", R"(template <class Index>
__device__ __forceinline__ long long attacca_named(
    const attacca_hole_context* context, int by, int row) {
  const attacca_operand& rows = context->operand[by];
  const int inside = row < context->rows ? row : context->rows - 1;
  long long named = __ldg((const Index*)rows.pointer + inside * rows.row_stride);
  named += named < 0 ? rows.batch_stride : 0;
  return (unsigned long long)named < (unsigned long long)rows.batch_stride ? named : -1;
}
)"},
    {"attacca_load_by", R"(template <class T>
__device__ __forceinline__ T attacca_load_by(
    const attacca_hole_context* context, int index, int by, long long named, int column) {
  const attacca_operand& operand = context->operand[index];
  const T* const element =
      (const T*)operand.pointer + named * operand.row_stride + column * operand.column_stride;
  const T* const other = (const T*)context->operand[by].pointer;
  const bool exists = (named >= 0) & (column < context->columns);
  const T* const at = exists ? element : other;
  const T value = __ldg(at);
  return exists ? value : attacca_ones<T>();
}
)"},
    {"attacca_store", R"(template <class T>
__device__ __forceinline__ void attacca_store(
    const attacca_hole_context* context, int index, int row, int column, int batch, T value) {
  if (!attacca_inside(context, row, column)) return;
  const attacca_operand& operand = context->operand[index];
  ((T*)operand.pointer)[attacca_element_of(operand, row, column, batch)] = value;
}
)"},
};

}  // namespace

std::span<const Helper> all_helpers() {
  return kHelpers;
}

}  // namespace attacca::epilogue
