// Functions, constants and an external function that the epilogue refers to; one it does not.
#ifdef KERNEL
extern "C" __device__ float hole(float acc);
__constant__ float scale[4] = {9, 8, 7, 6};
__device__ __noinline__ float helper(float x) { return x * scale[threadIdx.x & 3]; }
extern "C" __global__ void kernel(float* a) { a[threadIdx.x] = helper(hole(a[threadIdx.x])); }
#else
#include <cstdio>
__constant__ float scale[4] = {1, 2, 3, 4};
__device__ __noinline__ float unused(float x) { return x + scale[0]; }
__device__ __noinline__ float inner(float x) { return x * scale[int(x) & 3]; }
__device__ __noinline__ float helper(float x) { return inner(x) + inner(x + 1.0f); }
extern "C" __device__ float hole(float acc) {
  if (acc != acc) printf("%f is not a number\n", acc);
  return helper(acc);
}
#endif
