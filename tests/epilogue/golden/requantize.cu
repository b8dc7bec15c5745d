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

template <class T>
__device__ __forceinline__ int attacca_clamp_s8(T x) {
  if (x != x) return 0;
  return x >= (T)127 ? 127 : x <= (T)-128 ? -128 : (int)x;
}

__device__ __forceinline__ float attacca_op_round(float x) {
  return rintf(x);
}

struct attacca_outputs {
  int out0;
};
__device__ __forceinline__ attacca_outputs attacca_element(int acc, float scale, float token) {
  const float t0 = (float)acc;
  const float t1 = t0 * scale;
  const float t2 = t1 * token;
  const float t3 = attacca_op_round(t2);
  const int t4 = attacca_clamp_s8(t3);
  attacca_outputs outputs;
  outputs.out0 = t4;
  return outputs;
}

extern "C" __device__ attacca_results attacca_hole(uint32_t acc0_0, uint32_t acc0_1, uint32_t row0_0, uint32_t row0_1, uint32_t col0, int32_t row, int32_t column, int32_t batch, const attacca_hole_context* context) {
  const attacca_outputs d0 = attacca_element((int)acc0_0, __uint_as_float(row0_0), __uint_as_float(col0));
  const attacca_outputs d1 = attacca_element((int)acc0_1, __uint_as_float(row0_1), __uint_as_float(col0));
  attacca_results results;
  results.word[0] = (uint32_t)(unsigned char)(signed char)d0.out0 | (uint32_t)(unsigned char)(signed char)d1.out0 << 8;
  return results;
}
