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
};

}  // namespace

std::span<const Helper> approximation_helpers() {
  return kApproximations;
}

}  // namespace attacca::epilogue
