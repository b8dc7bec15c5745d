// Kernels as users write them, for graphs that name them.
#include <cuda_bf16.h>

// One element a thread.
extern "C" __global__ void scale(const float* x, float* out, int rows, int columns, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * columns) out[i] = x[i] * by;
}

// The same, added to what is there.
extern "C" __global__ void accumulate(const float* x, float* out, int rows, int columns, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * columns) out[i] += x[i] * by;
}

// The same, and x is overwritten.
extern "C" __global__ void consume(float* x, float* out, int rows, int columns, float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * columns) {
    out[i] = x[i] * by;
    x[i] = 0;
  }
}

// x [rows, inner] times w [inner, columns], a tile of 16 x 16 a block in dynamic shared memory.
template <class T>
__global__ void tiled_gemm(const T* x, const T* w, T* out, int rows, int columns, int inner) {
  extern __shared__ float tiles[];
  float* own = tiles;
  float* other = tiles + 256;
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.x * 16 + ty, column = blockIdx.y * 16 + tx;
  float sum = 0;
  for (int k = 0; k < inner; k += 16) {
    own[ty * 16 + tx] = row < rows && k + tx < inner ? float(x[row * inner + k + tx]) : 0;
    const bool inside = column < columns && k + ty < inner;
    other[ty * 16 + tx] = inside ? float(w[(k + ty) * columns + column]) : 0;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += own[ty * 16 + i] * other[i * 16 + tx];
    __syncthreads();
  }
  if (row < rows && column < columns) out[row * columns + column] = T(sum);
}
template __global__ void tiled_gemm<__nv_bfloat16>(const __nv_bfloat16*, const __nv_bfloat16*,
                                                   __nv_bfloat16*, int, int, int);
template __global__ void tiled_gemm<float>(const float*, const float*, float*, int, int, int);

// scale, two elements a thread.
extern "C" __global__ void scale_pairs(const float* x, float* out, int rows, int columns,
                                       float by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int half = (rows * columns + 1) / 2;
  if (i >= half) return;
  out[i] = x[i] * by;
  if (i + half < rows * columns) out[i + half] = x[i + half] * by;
}
