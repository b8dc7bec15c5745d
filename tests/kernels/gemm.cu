// Matrix products as people write them: one output element a thread, tiles in shared memory, tiles
// in registers, tensor cores.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

extern "C" __global__ void naive_gemm(const float* a, const float* b, float* c, int m, int n,
                                      int k) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
  c[row * n + column] = sum;
}

// The product of the last step is the last multiply before the store: nothing may be contracted
// with what the tail begins with.
extern "C" __global__ void scaled_gemm(const float* __restrict__ a, const float* __restrict__ b,
                                       float* __restrict__ c, int m, int n, int k, float alpha) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < m && column < n) {
    float sum = 0;
#pragma unroll 4
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = alpha * sum;
  }
}

constexpr int kTile = 8;

extern "C" __global__ void __launch_bounds__(kTile* kTile)
    tiled_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int m, int n,
               int k) {
  __shared__ float tile_a[kTile][kTile];
  __shared__ float tile_b[kTile][kTile + 1];
  const int y = threadIdx.y, x = threadIdx.x;
  const int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
  float sum = 0;
  for (int start = 0; start < k; start += kTile) {
    const bool in_a = row < m && start + x < k, in_b = column < n && start + y < k;
    tile_a[y][x] = in_a ? __bfloat162float(a[row * k + start + x]) : 0.0f;
    tile_b[y][x] = in_b ? __bfloat162float(b[(start + y) * n + column]) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; ++i) sum += tile_a[y][i] * tile_b[i][x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = __float2bfloat16(sum);
}

namespace kernels {

// Each thread has a Rows x 4 tile in registers and stores its rows as float4.
template <class T, int Rows>
__global__ void register_tiled(const T* __restrict__ a, const T* __restrict__ b,
                               float* __restrict__ c, int n, int k) {
  const int row = (blockIdx.y * blockDim.y + threadIdx.y) * Rows;
  const int column = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  float sums[Rows][4] = {};
  for (int i = 0; i < k; ++i) {
    float values[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) values[j] = static_cast<float>(b[i * n + column + j]);
#pragma unroll
    for (int r = 0; r < Rows; ++r)
#pragma unroll
      for (int j = 0; j < 4; ++j)
        sums[r][j] += static_cast<float>(a[(row + r) * k + i]) * values[j];
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r)
    *reinterpret_cast<float4*>(&c[(row + r) * n + column]) =
        make_float4(sums[r][0], sums[r][1], sums[r][2], sums[r][3]);
}
template __global__ void register_tiled<float, 2>(const float*, const float*, float*, int, int);
template __global__ void register_tiled<__half, 3>(const __half*, const __half*, float*, int, int);

}  // namespace kernels

// One warp a 16x8 tile: mma.sync, accumulators packed into bf16x2 stores.
extern "C" __global__ void mma_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b,
                                    __nv_bfloat16* c, int n, int k) {
  const int lane = threadIdx.x % 32, group = lane / 4, pair = lane % 4 * 2;
  const int row = blockIdx.y * 16 + group, column = blockIdx.x * 8;
  float d[4] = {};
  for (int start = 0; start < k; start += 16) {
    uint32_t fa[4], fb[2];
    for (int i = 0; i < 4; ++i)
      fa[i] =
          *reinterpret_cast<const uint32_t*>(&a[(row + i % 2 * 8) * k + start + pair + i / 2 * 8]);
    for (int i = 0; i < 2; ++i) {
      const __nv_bfloat16* from = &b[(start + pair + i * 8) * n + column + group];
      const __nv_bfloat162 both(from[0], from[n]);
      fb[i] = *reinterpret_cast<const uint32_t*>(&both);
    }
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
  }
  *reinterpret_cast<__nv_bfloat162*>(&c[row * n + column + pair]) =
      __floats2bfloat162_rn(d[0], d[1]);
  *reinterpret_cast<__nv_bfloat162*>(&c[(row + 8) * n + column + pair]) =
      __floats2bfloat162_rn(d[2], d[3]);
}

// Operands through cp.async; the output is stored as ever.
extern "C" __global__ void async_copy_gemm(const float* a, const float* b, float* c, int n, int k) {
  extern __shared__ float4 staged[];
  float* rows = reinterpret_cast<float*>(staged);
  const int row = blockIdx.x;
  for (int i = threadIdx.x * 4; i < k; i += blockDim.x * 4)
    __pipeline_memcpy_async(&rows[i], &a[row * k + i], 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  for (int column = threadIdx.x; column < n; column += blockDim.x) {
    float sum = 0;
    for (int i = 0; i < k; ++i) sum = fmaf(rows[i], b[i * n + column], sum);
    c[row * n + column] = sum;
  }
}

// Refused: what was there counts.
extern "C" __global__ void blas_gemm(const float* a, const float* b, float* c, int m, int n, int k,
                                     float alpha, float beta) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
  c[row * n + column] = alpha * sum + beta * c[row * n + column];
}

// Refused: blocks add their part of k.
extern "C" __global__ void split_k_gemm(const float* a, const float* b, float* c, int n, int k) {
  const int row = blockIdx.x, column = threadIdx.x;
  const int begin = blockIdx.y * (k / gridDim.y), end = begin + k / gridDim.y;
  float sum = 0;
  for (int i = begin; i < end; ++i) sum += a[row * k + i] * b[i * n + column];
  atomicAdd(&c[row * n + column], sum);
}
