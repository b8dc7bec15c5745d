// Weights in blocks of 32 with a scale each, times a few tokens' activations in such blocks, by
// dp4a: one warp a row of weights, as llama.cpp structures it.
#include <cstdint>
#include <cuda_fp16.h>

constexpr int kBlock = 32, kTokens = 4;

struct Weights8 {
  __half scale;
  int8_t bytes[kBlock];
};
struct Weights4 {
  __half scale;
  uint8_t nibbles[kBlock / 2];  // element i and, in the upper half, i + 16; both plus 8
};
struct Activations {
  __half scale, sum;  // the sum of the elements, times the scale
  int8_t bytes[kBlock];
};

__device__ __forceinline__ int word_of_halves(const void* bytes, int index) {
  const auto* halves = static_cast<const uint16_t*>(bytes) + 2 * index;
  return halves[0] | halves[1] << 16;
}

// Four bytes of a block a lane: `lane % 8` of block `lane / 8`.
__device__ __forceinline__ float part_of(const Weights8& weights, const Activations& with, int at) {
  const int other = reinterpret_cast<const int*>(with.bytes)[at];
  return __half2float(weights.scale) * __half2float(with.scale) *
         __dp4a(word_of_halves(weights.bytes, at), other, 0);
}
__device__ __forceinline__ float part_of(const Weights4& weights, const Activations& with, int at) {
  const int other = reinterpret_cast<const int*>(with.bytes)[at];
  const int both = word_of_halves(weights.nibbles, at % 4);
  const int mine = (at < 4 ? both : both >> 4) & 0x0f0f0f0f;
  // Eight lanes have a block: each subtracts an eighth of 8 * sum.
  return __half2float(weights.scale) *
         (__half2float(with.scale) * __dp4a(mine, other, 0) - __half2float(with.sum));
}

template <class Weights>
__device__ __forceinline__ void products_of_row(const Weights* weights, const Activations* x,
                                                float* out, int rows, int blocks) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sums[kTokens] = {};
  for (int block = lane / 8; block < blocks; block += 4)
    for (int token = 0; token < kTokens; ++token)
      sums[token] += part_of(weights[int64_t{row} * blocks + block],
                             x[int64_t{token} * blocks + block], lane % 8);
  for (int token = 0; token < kTokens; ++token)
    for (int step = 16; step > 0; step /= 2)
      sums[token] += __shfl_xor_sync(0xffffffffu, sums[token], step);
  float mine = sums[0];
  for (int token = 1; token < kTokens; ++token)
    if (lane == token) mine = sums[token];
  if (lane < kTokens) out[int64_t{lane} * rows + row] = mine;
}

extern "C" __global__ void __launch_bounds__(128)
    mul_mat_vec_q8(const Weights8* weights, const Activations* x, float* out, int rows,
                   int blocks) {
  products_of_row(weights, x, out, rows, blocks);
}

extern "C" __global__ void __launch_bounds__(128)
    mul_mat_vec_q4(const Weights4* weights, const Activations* x, float* out, int rows,
                   int blocks) {
  products_of_row(weights, x, out, rows, blocks);
}
