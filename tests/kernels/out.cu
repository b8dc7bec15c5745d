// Kernels that the analysis would refuse, with an attacca::Out as output.
#include <attacca/out.cuh>
#include <cuda_bf16.h>

using attacca::Out;

__device__ __forceinline__ int thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void out_elements(const float* x, Out<float> out, int n) {
  const int i = thread_index();
  if (i < n) out[i] = x[i] * 2.0f;
}

// Kept in shared memory, and shuffled between lanes: each thread writes its neighbour's element.
extern "C" __global__ void out_travels(const __nv_bfloat16* x, Out<__nv_bfloat16> out, int n) {
  __shared__ Out<__nv_bfloat16> kept[32];
  const int i = thread_index();
  kept[threadIdx.x] = out + i;
  __syncwarp();
  const int other = i ^ 1;
  if (other < n) *kept[threadIdx.x ^ 1] = x[other];
}

template <class To>
__device__ __noinline__ void put(To to, float value) {
  *to = value;
}

extern "C" __global__ void out_walks(const float* x, Out<float> out, int columns) {
  if (threadIdx.x != 0) return;
  Out<float> to = out + blockIdx.x * columns;
  for (int i = 0; i < columns; ++i) put(to++, x[blockIdx.x * columns + i]);
}

extern "C" __global__ void out_vectors(const float4* x, Out<float> out, int n) {
  const int i = thread_index();
  if (i >= n / 4) return;
  const float4 v = x[i];
  const float values[4] = {v.x, -v.y, v.z, -v.w};
  out.store(4 * i, values);
}

extern "C" __global__ void out_doubles(const double* x, Out<double> out, int n) {
  const int i = thread_index();
  if (i < n) out[i] = x[i] + 1.0;
}
