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
struct attacca_results { uint32_t word[2]; };


__device__ __forceinline__ float attacca_op_gelu(float x) {
  return 0.5f * x * erfcf(-x * 0.70710678f);
}

struct attacca_outputs {
  float out0;
};
__device__ __forceinline__ attacca_outputs attacca_element(float acc, float bias) {
  const float t0 = acc + bias;
  const float t1 = attacca_op_gelu(t0);
  attacca_outputs outputs;
  outputs.out0 = t1;
  return outputs;
}

extern "C" __device__ attacca_results attacca_hole(uint32_t acc0_0, uint32_t acc0_1, uint32_t row0_0, uint32_t row0_1, int32_t row, int32_t column, int32_t batch, const attacca_hole_context* context) {
  const attacca_outputs d0 = attacca_element(__uint_as_float(acc0_0), __uint_as_float(row0_0));
  const attacca_outputs d1 = attacca_element(__uint_as_float(acc0_1), __uint_as_float(row0_1));
  attacca_results results;
  results.word[0] = __float_as_uint(d0.out0);
  results.word[1] = __float_as_uint(d1.out0);
  return results;
}
