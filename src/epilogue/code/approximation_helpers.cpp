// Approximate instructions, and ops made of them.
#include "epilogue/code/device_helpers.hpp"

namespace attacca::epilogue {
namespace {

constexpr Helper kApproximations[] = {
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
  return fabsf(result) < 1.17549435e-38f ? copysignf(0.0f, result) : result;
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
    // The same of x n / (n + 2) with n = e (e + 2), e = exp(x).
    {"attacca_narrow_mish", R"(__device__ __forceinline__ float attacca_narrow_mish(float x) {
  const float e = attacca_narrow_exp2(x, 1.44269502f, 1.92596303e-08f);
  const float n = __fmul_rn(e, __fadd_rn(e, 2.0f));
  return x > 20.0f ? x : __fmul_rn(__fmul_rn(x, n), attacca_flushed_rcp(__fadd_rn(n, 2.0f)));
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
    {"attacca_hard_gate", R"(__device__ __forceinline__ float attacca_hard_gate(float x) {
  const float sum = __fadd_rn(x, 3.0f);
  return __fmul_rn(0.166666672f, sum < 0.0f ? 0.0f : sum > 6.0f ? 6.0f : sum);
}
)"},
    // Of bf16 x, the reference's numbers once they are rounded to bf16 (BF16 in fast.def). The
    // constants are near those of the formula, and moved so that no number comes near a tie.
    // numerator / (offset + 2^power), and near 0, where x / 2 may be a tie, 1/2 + slope x.
    {"attacca_bf16_logistic2", R"(__device__ __forceinline__ float attacca_bf16_logistic2(
    float x, float power, float offset, float numerator, float slope) {
  const float sum = __fadd_rn(offset, attacca_flushed_exp2(power));
  const float about = __fmul_rn(numerator, attacca_flushed_rcp(sum));
  return fabsf(x) < 0.03125f ? fmaf(x, slope, 0.5f) : about;
}
)"},
    // (2^(x h / 2))^2 (1 + rest), where h has 16 bits, so that x h is exact.
    {"attacca_bf16_exp", R"(__device__ __forceinline__ float attacca_bf16_exp(float x) {
  const float root = attacca_flushed_exp2(__fmul_rn(x, 0.721343994f)), e = __fmul_rn(root, root);
  return fmaf(e, fmaf(fmaxf(x, -128.0f), 4.88849515e-06f, 8.10623169e-07f), e);
}
)"},
    {"attacca_bf16_tanh", R"(__device__ __forceinline__ float attacca_bf16_tanh(float x) {
  const float sum = __fadd_rn(1.0f, attacca_flushed_exp2(__fmul_rn(x, 2.88538837f)));
  return fabsf(x) < 0.015625f ? x : fmaf(-2.0f, attacca_flushed_rcp(sum), 1.0f);
}
)"},
    // x n / (n + 2) with n = e (e + 2), all but x times 2^15.
    {"attacca_bf16_mish", R"(__device__ __forceinline__ float attacca_bf16_mish(float x) {
  const float e = attacca_flushed_exp2(fmaf(fminf(x, 20.0f), 1.44269514f, 15.0f));
  const float n = __fmul_rn(e, fmaf(e, 3.05175781e-05f, 2.0f));
  return __fmul_rn(x, __fmul_rn(n, attacca_flushed_rcp(__fadd_rn(n, 65536.0391f))));
}
)"},
    // max(x, 0) + log(1 + e), e = exp(-|x|).
    {"attacca_bf16_softplus", R"(__device__ __forceinline__ float attacca_bf16_softplus(float x) {
  const float root = attacca_flushed_exp2(__fmul_rn(fabsf(x), -0.72134763f));
  const float e = __fmul_rn(root, root);
  float slope = -0.00853903126f;
  slope = fmaf(slope, e, 0.044089023f);
  slope = fmaf(slope, e, -0.107681014f);
  slope = fmaf(slope, e, 0.177451745f);
  slope = fmaf(slope, e, -0.244954422f);
  slope = fmaf(slope, e, 0.332754791f);
  slope = fmaf(slope, e, -0.499973953f);
  slope = fmaf(slope, e, 1.00000012f);
  return fmaf(slope, e, fmaxf(x, 0.0f));
}
)"},
    // The normal distribution's integral: left of 0 exp(-x^2 / 2) times a polynomial of
    // t = 1 / (1 + 0.3 |x|), times 2^15 as far as possible.
    {"attacca_bf16_phi", R"(__device__ __forceinline__ float attacca_bf16_phi(float x) {
  const float t = attacca_flushed_rcp(fmaf(fabsf(x), 0.300000668f, 1.0f));
  float ratio = 0.0358798467f;
  ratio = fmaf(ratio, t, -0.158059105f);
  ratio = fmaf(ratio, t, 0.207830846f);
  ratio = fmaf(ratio, t, -0.0550464541f);
  ratio = fmaf(ratio, t, 0.129284218f);
  ratio = fmaf(ratio, t, 0.0996938571f);
  ratio = fmaf(ratio, t, 0.120789222f);
  ratio = fmaf(ratio, t, 0.119627014f);
  const float e = attacca_flushed_exp2(fmaf(__fmul_rn(x, x), -0.721346855f, 15.0f));
  const float tail = __fmul_rn(__fmul_rn(__fmul_rn(ratio, t), e), 3.05175781e-05f);
  const float phi = x < 0.0f ? tail : __fsub_rn(1.0f, tail);
  return fabsf(x) < 0.015625f ? fmaf(x, 0.398935676f, 0.5f) : phi;
}
)"},
    // Of f16 x, likewise: what is not a reciprocal rounds as IEEE 754 says, and reciprocals are
    // corrected.
    {"attacca_f16_clamp",
     R"(__device__ __forceinline__ float attacca_f16_clamp(float x, float most) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(most));
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(-most));
  return x;
#else
  return x > most ? most : x < -most ? -most : x;
#endif
}
)"},
    // scale (1 + rest) = 2^(n + f), shifted being 1.5 * 2^23 + 127 + n, which has n + 127 in its
    // low bits.
    {"attacca_f16_power", R"(struct attacca_f16_power {
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
)"},
    // 2^(c x), for |x| up to `most`; beyond, as there.
    {"attacca_f16_exp2", R"(__device__ __forceinline__ attacca_f16_power attacca_f16_exp2(
    float x, float c, float most) {
  const float clamped = attacca_f16_clamp(x, most), shifted = fmaf(clamped, c, 12583039.0f);
  return attacca_f16_power_of(shifted, fmaf(clamped, c, __fsub_rn(12583039.0f, shifted)));
}
)"},
    {"attacca_narrow_expm1", R"(__device__ __forceinline__ float attacca_narrow_expm1(
    float x, float c) {
  const attacca_f16_power e = attacca_f16_exp2(x, c, 30.0f);
  return fmaf(e.scale, e.rest, __fsub_rn(e.scale, 1.0f));
}
)"},
    // x / (1 + e). The reciprocal of more than 2^126 is 0.
    {"attacca_f16_over", R"(__device__ __forceinline__ float attacca_f16_over(
    float x, attacca_f16_power e) {
  const float whole = __fadd_rn(1.0f, e.scale), sum = fmaf(e.scale, e.rest, whole);
  const float lost = fmaf(e.scale, e.rest, __fsub_rn(whole, sum));
  const float r = attacca_flushed_rcp(sum), about = __fmul_rn(x, r);
  const float remainder = fmaf(-about, lost, fmaf(-about, sum, x));
  return fabsf(remainder) > 0.0f ? fmaf(remainder, r, about) : about;
}
)"},
    {"attacca_f16_exp", R"(__device__ __forceinline__ float attacca_f16_exp(float x) {
  const attacca_f16_power e = attacca_f16_exp2(x, 1.44269502f, 30.0f);
  return fmaf(e.scale, e.rest, e.scale);
}
)"},
    {"attacca_f16_gelu_tanh", R"(__device__ __forceinline__ float attacca_f16_gelu_tanh(float x) {
  const float z = attacca_f16_clamp(x, 10.0200005f), square = __fmul_rn(z, z);
  const float c = fmaf(square, -0.102943242f, -2.30220819f);
  const float lost = fmaf(square, -0.102943242f, __fsub_rn(-2.30220819f, c));
  const float shifted = fmaf(z, c, 12583039.0f);
  const float f = fmaf(z, lost, fmaf(z, c, __fsub_rn(12583039.0f, shifted)));
  return attacca_f16_over(x, attacca_f16_power_of(shifted, f));
}
)"},
    // exp(c x), c = high + low.
    {"attacca_f16_long_exp2", R"(__device__ __forceinline__ attacca_f16_power attacca_f16_long_exp2(
    float x, float high, float low) {
  const float shifted = fmaf(x, high, 12583039.0f);
  const float f = fmaf(x, high, __fsub_rn(12583039.0f, shifted));
  return attacca_f16_power_of(shifted, fmaf(x, low, f));
}
)"},
    // max(x, 0) + log(1 + e), e = exp(-|x|).
    {"attacca_f16_softplus", R"(__device__ __forceinline__ float attacca_f16_softplus(float x) {
  const attacca_f16_power power =
      attacca_f16_long_exp2(attacca_f16_clamp(-fabsf(x), 30.0f), 1.44269502f, 1.92596303e-08f);
  const float e = fmaf(power.scale, power.rest, power.scale);
  float slope = 0.00523258839f;
  slope = fmaf(slope, e, -0.0295048244f);
  slope = fmaf(slope, e, 0.0782252997f);
  slope = fmaf(slope, e, -0.136631921f);
  slope = fmaf(slope, e, 0.191059828f);
  slope = fmaf(slope, e, -0.24842976f);
  slope = fmaf(slope, e, 0.333190948f);
  slope = fmaf(slope, e, -0.499994934f);
  slope = fmaf(slope, e, 0.99999994f);
  return fmaf(slope, e, fmaxf(x, 0.0f));
}
)"},
    // As attacca_bf16_phi.
    {"attacca_f16_gelu", R"(__device__ __forceinline__ float attacca_f16_gelu(float x) {
  const float a = fminf(fabsf(x), 13.2700005f), below = fmaf(a, 0.399999976f, 1.0f);
  const float r = attacca_flushed_rcp(below), t = fmaf(r, fmaf(-r, below, 1.0f), r);
  float ratio = 0.00503520668f;
  ratio = fmaf(ratio, t, -0.0643702671f);
  ratio = fmaf(ratio, t, 0.251784742f);
  ratio = fmaf(ratio, t, -0.43099156f);
  ratio = fmaf(ratio, t, 0.288062215f);
  ratio = fmaf(ratio, t, -0.0257028565f);
  ratio = fmaf(ratio, t, 0.160371184f);
  ratio = fmaf(ratio, t, 0.15602991f);
  ratio = fmaf(ratio, t, 0.159781501f);
  const attacca_f16_power e =
      attacca_f16_long_exp2(__fmul_rn(a, a), -0.721347511f, -9.62981517e-09f);
  const float scaled = __fmul_rn(__fmul_rn(ratio, t), e.scale), tail = fmaf(scaled, e.rest, scaled);
  const float phi = x < 0.0f ? tail : __fsub_rn(1.0f, tail);
  return __fmul_rn(x, a < 0.00390625f ? fmaf(x, 0.398942292f, 0.5f) : phi);
}
)"},
    // (e - 1) / (e + 1) with e = exp(2 x).
    {"attacca_f16_tanh", R"(__device__ __forceinline__ float attacca_f16_tanh(float x) {
  const attacca_f16_power e = attacca_f16_exp2(x, 2.88538957f, 10.0f);
  const float above = fmaf(e.scale, e.rest, __fsub_rn(e.scale, 1.0f));
  const float below = __fadd_rn(2.0f, above), r = attacca_flushed_rcp(below);
  const float about = __fmul_rn(above, r);
  return x == 0.0f ? x : fmaf(fmaf(-about, below, above), r, about);
}
)"},
    // A quotient of numbers of 11 bits is a tie, and then exact, or further than 2^-23 of its size
    // from any. The remainder is 0 or NaN where the first quotient is the result.
    {"attacca_f16_div", R"(__device__ __forceinline__ float attacca_f16_div(float x, float y) {
  const float r = attacca_flushed_rcp(y), about = __fmul_rn(x, r);
  const float remainder = fmaf(-about, y, x);
  return fabsf(remainder) > 0.0f ? fmaf(remainder, r, about) : about;
}
)"},
};

}  // namespace

std::span<const Helper> approximation_helpers() {
  return kApproximations;
}

}  // namespace attacca::epilogue
