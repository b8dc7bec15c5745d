// Mode eager.
#ifndef ATTACCA_FIXED_WIDTH_TYPES
#define ATTACCA_FIXED_WIDTH_TYPES
typedef unsigned int uint32_t;
typedef int int32_t;
#endif
struct attacca_operand {
  void* pointer;
  long long row_stride, column_stride, batch_stride;
};
struct attacca_hole_context {
  int32_t rows, columns, batches, reserved;
  attacca_operand operand[12];
};
struct attacca_results { uint32_t word[2]; };

__device__ __forceinline__ uint32_t attacca_encode_f16(float x) {
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
__device__ __forceinline__ float attacca_decode_f16(uint32_t bits) {
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
__device__ __forceinline__ uint32_t attacca_pack_f16(float low, float high) {
#ifdef __CUDA_ARCH__
  uint32_t bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return attacca_encode_f16(low) | attacca_encode_f16(high) << 16;
#endif
}
__device__ __forceinline__ float attacca_round_f16(float x) {
  return attacca_decode_f16(attacca_encode_f16(x));
}
__device__ __forceinline__ float attacca_flushed_rcp(float x) {
#ifdef __CUDA_ARCH__
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  const float result = __frcp_rn(x);
  return fabsf(result) < 1.17549435e-38f ? copysignf(0.0f, result) : result;
#endif
}
__device__ __forceinline__ float attacca_f16_clamp(float x, float most) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(most));
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(-most));
  return x;
#else
  return x > most ? most : x < -most ? -most : x;
#endif
}
struct attacca_f16_power {
  float scale, rest;
};
__device__ __forceinline__ attacca_f16_power attacca_f16_power_of(float shifted, float f) {
  float slope = 0.000154021327f;
  slope = fmaf(slope, f, 0.00133905234f);
  slope = fmaf(slope, f, 0.00961837079f);
  slope = fmaf(slope, f, 0.0555032268f);
  slope = fmaf(slope, f, 0.240226135f);
  slope = fmaf(slope, f, 0.693147123f);
  const attacca_f16_power power = {
      __uint_as_float(__float_as_uint(shifted) << 23), __fmul_rn(f, slope)};
  return power;
}
__device__ __forceinline__ attacca_f16_power attacca_f16_exp2(
    float x, float c, float most) {
  const float clamped = attacca_f16_clamp(x, most), shifted = fmaf(clamped, c, 12583039.0f);
  return attacca_f16_power_of(shifted, fmaf(clamped, c, __fsub_rn(12583039.0f, shifted)));
}
__device__ __forceinline__ float attacca_narrow_expm1(
    float x, float c) {
  const attacca_f16_power e = attacca_f16_exp2(x, c, 30.0f);
  return fmaf(e.scale, e.rest, __fsub_rn(e.scale, 1.0f));
}
__device__ __forceinline__ float attacca_f16_tanh(float x) {
  const attacca_f16_power e = attacca_f16_exp2(x, 2.88538957f, 10.0f);
  const float above = fmaf(e.scale, e.rest, __fsub_rn(e.scale, 1.0f));
  const float below = __fadd_rn(2.0f, above), r = attacca_flushed_rcp(below);
  const float about = __fmul_rn(above, r);
  return x == 0.0f ? x : fmaf(fmaf(-about, below, above), r, about);
}

__device__ __forceinline__ double attacca_f64_elu(double x, double p) {
  typedef double T;
  return (T)(x < 0 ? p * expm1(x) : x);
}
__device__ __forceinline__ float attacca_narrow_elu_f16_rare(float x) {
  return attacca_round_f16((float)attacca_f64_elu(x, 1.0));
}
__device__ __forceinline__ float attacca_narrow_elu_f16(float x) {
  const float about = x < 0.0f ? attacca_narrow_expm1(x, 1.44269502f) : x;
  const uint32_t both =
      attacca_pack_f16(__fmul_rn(about, 0.999999046f), __fmul_rn(about, 1.00000095f));
  const bool is_decided = fabsf(about) >= 7.88860905e-31f && both >> 16 == (both & 0xFFFFu);
  if (is_decided || x == 0.0f) return attacca_decode_f16(both & 0xFFFFu);
  return attacca_narrow_elu_f16_rare(x);
}
__device__ __forceinline__ float attacca_op_tanh(float x) {
  return attacca_f16_tanh(x);
}

struct attacca_outputs {
  float out0;
  float out1;
};
__device__ __forceinline__ attacca_outputs attacca_element(float acc, float bias, float res) {
  const float t0 = attacca_round_f16(acc);
  const float t1 = attacca_round_f16(__fadd_rn(t0, bias));
  const float t2 = attacca_narrow_elu_f16(t1);
  const float t3 = attacca_round_f16(attacca_op_tanh(t0));
  const float t4 = attacca_round_f16(__fmul_rn(t3, res));
  attacca_outputs outputs;
  outputs.out0 = t2;
  outputs.out1 = t4;
  return outputs;
}

extern "C" __device__ attacca_results attacca_hole(uint32_t acc0_0, uint32_t acc0_1, uint32_t full0, uint32_t row0_0, uint32_t row0_1, int32_t row, int32_t column, int32_t batch, const attacca_hole_context* context) {
  const attacca_outputs d0 = attacca_element(__uint_as_float(acc0_0), attacca_decode_f16(row0_0), attacca_decode_f16(full0 & 0xFFFFu));
  const attacca_outputs d1 = attacca_element(__uint_as_float(acc0_1), attacca_decode_f16(row0_1), attacca_decode_f16(full0 >> 16));
  attacca_results results;
  results.word[0] = attacca_pack_f16(d0.out0, d1.out0);
  results.word[1] = attacca_pack_f16(d0.out1, d1.out1);
  return results;
}
