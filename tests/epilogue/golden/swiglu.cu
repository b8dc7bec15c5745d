// Mode fp32.
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
struct attacca_results { uint32_t word[1]; };

__device__ __forceinline__ uint32_t attacca_encode_bf16(float x) {
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
__device__ __forceinline__ uint32_t attacca_pack_bf16(float low, float high) {
#ifdef __CUDA_ARCH__
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return attacca_encode_bf16(low) | attacca_encode_bf16(high) << 16;
#endif
}
__device__ __forceinline__ float attacca_flushed_exp2(float x) {
#ifdef __CUDA_ARCH__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  const float result = exp2f(x);
  return result < 1.17549435e-38f ? 0.0f : result;
#endif
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
__device__ __forceinline__ float attacca_fast_logistic2(float x) {
  return 5.9604645e-08f * attacca_flushed_rcp(5.9604645e-08f + attacca_flushed_exp2(x));
}
__device__ __forceinline__ float attacca_fast_sigmoid(float x) {
  return attacca_fast_logistic2(x * -1.44269504f - 24.0f);
}

__device__ __forceinline__ float attacca_op_swiglu(float x, float y, float p) {
  return x * attacca_fast_sigmoid(p * x) * y;
}

struct attacca_outputs {
  float out0;
};
__device__ __forceinline__ attacca_outputs attacca_element(float acc0, float acc1) {
  const float t0 = attacca_op_swiglu(acc0, acc1, 1.0f);
  attacca_outputs outputs;
  outputs.out0 = t0;
  return outputs;
}

extern "C" __device__ attacca_results attacca_hole(uint32_t acc0_0, uint32_t acc0_1, uint32_t acc1_0, uint32_t acc1_1, int32_t row, int32_t column, int32_t batch, const attacca_hole_context* context) {
  const attacca_outputs d0 = attacca_element(__uint_as_float(acc0_0), __uint_as_float(acc1_0));
  const attacca_outputs d1 = attacca_element(__uint_as_float(acc0_1), __uint_as_float(acc1_1));
  attacca_results results;
  results.word[0] = attacca_pack_bf16(d0.out0, d1.out0);
  return results;
}
