// Packed half and bfloat16 values in raw bits; inline assembly with scopes of its own.
#ifdef KERNEL
extern "C" __device__ unsigned hole(unsigned acc, unsigned residual, unsigned short scale);
extern "C" __global__ void kernel(uint4* a, const uint4* r, const unsigned short* s) {
  uint4 x = a[threadIdx.x], y = r[threadIdx.x];
  unsigned short z = s[threadIdx.x];
  a[threadIdx.x] = make_uint4(hole(x.x, y.x, z), hole(x.y, y.y, z), hole(x.z, y.z, z),
                              hole(x.w, y.w, z));
}
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __device__ unsigned hole(unsigned acc, unsigned residual, unsigned short scale) {
  unsigned sum, out;
  asm("{ .reg .b32 one; mov.b32 one, 0x3f803f80; fma.rn.bf16x2 %0, %1, one, %2; }"
      : "=r"(sum) : "r"(acc), "r"(residual));
  __nv_bfloat16 low = __ushort_as_bfloat16((unsigned short)sum);
  __half factor = __ushort_as_half(scale);
  float x = fmaxf(__bfloat162float(low), 0.0f) * __half2float(factor);
  asm("{\n  .reg .pred p;\n  setp.gt.f32 p, %1, 0f3F800000;\n  @p mov.b32 %0, %2;\n"
      "  @!p mov.b32 %0, %3;\n}" : "=r"(out) : "f"(x), "r"(sum), "r"(residual));
  return out;
}
#endif
