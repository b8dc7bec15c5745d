// Attention in the structure of FlashAttention: online softmax over tiles of keys, in registers,
// and the step that joins the parts of a decode that was split along the keys.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_pipeline.h>

using bf16 = __nv_bfloat16;

constexpr int kTile = 64, kDim = 64, kStride = kDim + 8;  // padded against bank conflicts

struct Fragment {  // of m16n8k16
  float d[4];
};

__device__ __forceinline__ void multiply(Fragment& sums, const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums.d[0]), "+f"(sums.d[1]), "+f"(sums.d[2]), "+f"(sums.d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t packed(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ __forceinline__ void load_transposed(uint32_t (&to)[4], const bf16* from) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(from));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address));
}

__device__ __forceinline__ void fetch(bf16 (*to)[kStride], const bf16* from) {
  for (int i = threadIdx.x; i < kTile * kDim / 8; i += 128)
    __pipeline_memcpy_async(&to[i / 8][i % 8 * 8], &from[i * 8], 16);
}

__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

// q, k, v and out: [heads, length, 64]; blocks are (length / 64, heads). `scale` has log2(e) in it.
extern "C" __global__ void __launch_bounds__(128)
    flash_forward(const bf16* q, const bf16* k, const bf16* v, bf16* out, int length, float scale) {
  __shared__ __align__(16) bf16 keys[2][kTile][kStride];
  __shared__ __align__(16) bf16 values[2][kTile][kStride];
  const int lane = threadIdx.x % 32, group = lane / 4, pair = lane % 4 * 2;
  const int64_t head = int64_t{blockIdx.y} * length * kDim;
  const int64_t row = blockIdx.x * kTile + threadIdx.x / 32 * 16 + group;
  const bf16* mine = q + head + row * kDim;

  fetch(keys[0], k + head);
  fetch(values[0], v + head);
  __pipeline_commit();
  uint32_t queries[4][4];
  for (int step = 0; step < 4; ++step)
    for (int i = 0; i < 4; ++i)
      queries[step][i] = *reinterpret_cast<const uint32_t*>(
          &mine[i % 2 * 8 * kDim + step * 16 + pair + i / 2 * 8]);

  Fragment sums[8] = {};
  float largest[2] = {-INFINITY, -INFINITY}, total[2] = {};
  for (int tile = 0; tile < length / kTile; ++tile) {
    const int stage = tile % 2;
    if ((tile + 1) * kTile < length) {
      fetch(keys[1 - stage], k + head + int64_t{tile + 1} * kTile * kDim);
      fetch(values[1 - stage], v + head + int64_t{tile + 1} * kTile * kDim);
    }
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();

    Fragment scores[8] = {};
    for (int n = 0; n < 8; ++n)
      for (int step = 0; step < 4; ++step) {
        const bf16* key = &keys[stage][n * 8 + group][step * 16 + pair];
        multiply(scores[n], queries[step], *reinterpret_cast<const uint32_t*>(key),
                 *reinterpret_cast<const uint32_t*>(key + 8));
      }
    for (int half = 0; half < 2; ++half) {
      float most = largest[half];
      for (const Fragment& each : scores)
        most = fmaxf(most, fmaxf(each.d[2 * half], each.d[2 * half + 1]));
      most = quad_max(most);
      const float shrink = exp2f((largest[half] - most) * scale);
      largest[half] = most;
      total[half] *= shrink;
      for (Fragment& each : scores)
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          each.d[i] = exp2f((each.d[i] - most) * scale);
          total[half] += each.d[i];
        }
      for (Fragment& each : sums)
        for (int i = 2 * half; i < 2 * half + 2; ++i) each.d[i] *= shrink;
    }
    for (int step = 0; step < 4; ++step) {
      const Fragment &low = scores[2 * step], &high = scores[2 * step + 1];
      const uint32_t weights[4] = {packed(low.d[0], low.d[1]), packed(low.d[2], low.d[3]),
                                   packed(high.d[0], high.d[1]), packed(high.d[2], high.d[3])};
      for (int n = 0; n < 8; n += 2) {
        uint32_t both[4];
        load_transposed(both, &values[stage][step * 16 + lane % 16][n * 8 + lane / 16 * 8]);
        multiply(sums[n], weights, both[0], both[1]);
        multiply(sums[n + 1], weights, both[2], both[3]);
      }
    }
    __syncthreads();
  }
  const float by[2] = {1 / quad_sum(total[0]), 1 / quad_sum(total[1])};
  for (int half = 0; half < 2; ++half)
    for (int n = 0; n < 8; ++n)
      *reinterpret_cast<uint32_t*>(&out[head + (row + 8 * half) * kDim + n * 8 + pair]) =
          packed(sums[n].d[2 * half] * by[half], sums[n].d[2 * half + 1] * by[half]);
}

// parts: [splits, rows, 128] and their log-sums [splits, rows]; one warp a row.
extern "C" __global__ void __launch_bounds__(128)
    flash_combine(const float* parts, const float* log_sums, bf16* out, int rows, int splits) {
  constexpr int kColumns = 128;
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float most = -INFINITY;
  for (int i = 0; i < splits; ++i) most = fmaxf(most, log_sums[i * rows + row]);
  float4 sum = {0, 0, 0, 0};
  float total = 0;
  for (int i = 0; i < splits; ++i) {
    const float weight = __expf(log_sums[i * rows + row] - most);
    const float4 part = *reinterpret_cast<const float4*>(
        &parts[(int64_t{i} * rows + row) * kColumns + lane * 4]);
    total += weight;
    sum.x += weight * part.x;
    sum.y += weight * part.y;
    sum.z += weight * part.z;
    sum.w += weight * part.w;
  }
  *reinterpret_cast<uint2*>(&out[int64_t{row} * kColumns + lane * 4]) = {
      packed(sum.x / total, sum.y / total), packed(sum.z / total, sum.w / total)};
}
