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
__device__ __forceinline__ float attacca_decode_bf16(uint32_t bits) {
  return __uint_as_float(bits << 16);
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
__device__ __forceinline__ bool attacca_inside(
    const attacca_hole_context* context, int row, int column) {
  return row < context->rows && column < context->columns;
}
__device__ __forceinline__ long long attacca_element_of(
    const attacca_operand& operand, int row, int column, int batch) {
  return batch * operand.batch_stride + row * operand.row_stride + column * operand.column_stride;
}
template <class T>
__device__ __forceinline__ T attacca_load(
    const attacca_hole_context* context, int index, int row, int column, int batch) {
  if (!attacca_inside(context, row, column)) return (T)0;
  const attacca_operand& operand = context->operand[index];
  return ((const T*)operand.pointer)[attacca_element_of(operand, row, column, batch)];
}

__device__ __forceinline__ float attacca_op_relu(float x) {
  return (x < 0.0f ? 0.0f : x);
}

struct attacca_outputs {
  float out0;
  float out1;
};
__device__ __forceinline__ attacca_outputs attacca_element(float acc, float bias, int mask) {
  const float t0 = acc + bias;
  const float t1 = acc + bias;
  const float t2 = attacca_op_relu(t1);
  const float t3 = t2 * (float)mask;
  attacca_outputs outputs;
  outputs.out0 = t0;
  outputs.out1 = t3;
  return outputs;
}

extern "C" __device__ attacca_results attacca_hole(uint32_t acc0_0, uint32_t acc0_1, uint32_t row0_0, uint32_t row0_1, int32_t row, int32_t column, int32_t batch, const attacca_hole_context* context) {
  const attacca_outputs d0 = attacca_element(__uint_as_float(acc0_0), attacca_decode_bf16(row0_0), attacca_load<unsigned char>(context, 0, row, column, batch));
  const attacca_outputs d1 = attacca_element(__uint_as_float(acc0_1), attacca_decode_bf16(row0_1), attacca_load<unsigned char>(context, 0, row, column + 1, batch));
  attacca_results results;
  results.word[0] = attacca_pack_bf16(d0.out0, d1.out0);
  results.word[1] = attacca_pack_bf16(d0.out1, d1.out1);
  return results;
}
