// One block or warp a row: norms, softmax and scans with CUB, and by hand as inference engines do.
#include <cub/block/block_load.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using bf16 = __nv_bfloat16;

// 4096 columns.
extern "C" __global__ void __launch_bounds__(256)
    cub_layer_norm(const bf16* x, bf16* out, float epsilon) {
  constexpr int kItems = 16, kColumns = 256 * kItems;
  using Load = cub::BlockLoad<bf16, 256, kItems, cub::BLOCK_LOAD_VECTORIZE>;
  using Reduce = cub::BlockReduce<float, 256>;
  using Store = cub::BlockStore<bf16, 256, kItems, cub::BLOCK_STORE_VECTORIZE>;
  __shared__ typename Reduce::TempStorage storage[2];
  __shared__ float mean, scale;
  bf16 items[kItems];
  Load().Load(x + int64_t{blockIdx.x} * kColumns, items);
  float sum = 0;
  for (const bf16 each : items) sum += __bfloat162float(each);
  sum = Reduce(storage[0]).Sum(sum);
  if (threadIdx.x == 0) mean = sum / kColumns;
  __syncthreads();
  float squares = 0;
  for (const bf16 each : items) {
    const float off = __bfloat162float(each) - mean;
    squares += off * off;
  }
  squares = Reduce(storage[1]).Sum(squares);
  if (threadIdx.x == 0) scale = rsqrtf(squares / kColumns + epsilon);
  __syncthreads();
  for (bf16& each : items) each = __float2bfloat16((__bfloat162float(each) - mean) * scale);
  Store().Store(out + int64_t{blockIdx.x} * kColumns, items);
}

// 1024 columns.
extern "C" __global__ void __launch_bounds__(128) cub_softmax(const float* x, float* out) {
  constexpr int kItems = 8, kColumns = 128 * kItems;
  using Load = cub::BlockLoad<float, 128, kItems, cub::BLOCK_LOAD_VECTORIZE>;
  using Reduce = cub::BlockReduce<float, 128>;
  using Store = cub::BlockStore<float, 128, kItems, cub::BLOCK_STORE_VECTORIZE>;
  __shared__ typename Reduce::TempStorage storage[2];
  __shared__ float largest, total;
  float items[kItems];
  Load().Load(x + int64_t{blockIdx.x} * kColumns, items);
  const float most = Reduce(storage[0]).Reduce(items, [](float a, float b) { return fmaxf(a, b); });
  if (threadIdx.x == 0) largest = most;
  __syncthreads();
  for (float& each : items) each = __expf(each - largest);
  const float sum = Reduce(storage[1]).Sum(items);
  if (threadIdx.x == 0) total = 1 / sum;
  __syncthreads();
  for (float& each : items) each *= total;
  Store().Store(out + int64_t{blockIdx.x} * kColumns, items);
}

// 2048 columns: running sums, through shared memory both ways.
extern "C" __global__ void __launch_bounds__(256) cub_scan(const float* x, float* out) {
  constexpr int kItems = 8, kColumns = 256 * kItems;
  using Load = cub::BlockLoad<float, 256, kItems, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using Scan = cub::BlockScan<float, 256>;
  using Store = cub::BlockStore<float, 256, kItems, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Scan::TempStorage scan;
    typename Store::TempStorage store;
  } storage;
  float items[kItems];
  Load(storage.load).Load(x + int64_t{blockIdx.x} * kColumns, items);
  __syncthreads();
  Scan(storage.scan).InclusiveSum(items, items);
  __syncthreads();
  Store(storage.store).Store(out + int64_t{blockIdx.x} * kColumns, items);
}

__device__ __forceinline__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

// One warp a row of 1024 columns, which stays in registers.
extern "C" __global__ void __launch_bounds__(128)
    warp_rms_norm(const __half* x, const __half* gain, __half* out, int rows, float epsilon) {
  constexpr int kVectors = 4, kColumns = 1024;
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const auto* from = reinterpret_cast<const uint4*>(x + int64_t{row} * kColumns);
  const auto* gains = reinterpret_cast<const uint4*>(gain);
  auto* to = reinterpret_cast<uint4*>(out + int64_t{row} * kColumns);
  uint4 vectors[kVectors];
  float squares = 0;
  for (int i = 0; i < kVectors; ++i) {
    vectors[i] = from[i * 32 + lane];
    const auto* halves = reinterpret_cast<const __half2*>(&vectors[i]);
    for (int j = 0; j < 4; ++j) {
      const float2 pair = __half22float2(halves[j]);
      squares += pair.x * pair.x + pair.y * pair.y;
    }
  }
  const float scale = rsqrtf(warp_sum(squares) / kColumns + epsilon);
  for (int i = 0; i < kVectors; ++i) {
    const uint4 gained = gains[i * 32 + lane];
    auto* halves = reinterpret_cast<__half2*>(&vectors[i]);
    const auto* by = reinterpret_cast<const __half2*>(&gained);
    for (int j = 0; j < 4; ++j) {
      const float2 pair = __half22float2(halves[j]), g = __half22float2(by[j]);
      halves[j] = __floats2half2_rn(pair.x * scale * g.x, pair.y * scale * g.y);
    }
    to[i * 32 + lane] = vectors[i];
  }
}

// Rotary embedding of neighbouring pairs: rows are tokens of `heads` heads of `dim` columns.
extern "C" __global__ void __launch_bounds__(256)
    rope(const __half* x, const int* positions, __half* out, int columns, int dim, float log_base) {
  const int pair = blockIdx.x * 256 + threadIdx.x, row = blockIdx.y;
  if (2 * pair >= columns) return;
  const int64_t at = int64_t{row} * columns / 2 + pair;
  const float angle =
      static_cast<float>(positions[row]) * __expf(-log_base * (2 * pair % dim) / dim);
  float sine, cosine;
  __sincosf(angle, &sine, &cosine);
  const float2 value = __half22float2(reinterpret_cast<const __half2*>(x)[at]);
  reinterpret_cast<__half2*>(out)[at] =
      __floats2half2_rn(value.x * cosine - value.y * sine, value.x * sine + value.y * cosine);
}

// A causal convolution along each row with four taps a channel; eight columns a thread.
extern "C" __global__ void __launch_bounds__(128)
    causal_conv(const bf16* x, const bf16* taps, bf16* out, int columns) {
  const int64_t row = blockIdx.y;
  const int begin = (blockIdx.x * 128 + threadIdx.x) * 8;
  if (begin >= columns) return;
  float window[11], weights[4];
  for (int i = 0; i < 4; ++i) weights[i] = __bfloat162float(taps[row * 4 + i]);
  for (int i = 0; i < 3; ++i)
    window[i] = begin == 0 ? 0.0f : __bfloat162float(x[row * columns + begin - 3 + i]);
  const uint4 loaded = *reinterpret_cast<const uint4*>(&x[row * columns + begin]);
  for (int i = 0; i < 8; ++i)
    window[3 + i] = __bfloat162float(reinterpret_cast<const bf16*>(&loaded)[i]);
  uint4 stored;
  for (int i = 0; i < 8; ++i) {
    float sum = 0;
    for (int tap = 0; tap < 4; ++tap) sum += window[i + tap] * weights[tap];
    reinterpret_cast<bf16*>(&stored)[i] = __float2bfloat16(sum);
  }
  *reinterpret_cast<uint4*>(&out[row * columns + begin]) = stored;
}
