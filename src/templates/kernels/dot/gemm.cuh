// One to a few rows of A times weights as (N, K). Each element of the result is a dot product. The
// weights are read once, at the memory's bandwidth, without tensor cores or shared memory: the
// lanes of a warp load neighbouring 16-byte chunks of the same rows of weights, several steps of k
// at once. A is read through L1.
//
// Sums have a fixed order: along k in a lane, then over the lanes, then over the warps that share
// k.
#pragma once

#include "common/prefetch_inputs.cuh"
#include "dot/config.cuh"
#include "dot/instructions.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_dot {

// The rows that one lane reads, from its first chunk on. Rows beyond the end are the last row
// again.
struct Lines {
  const Element* a[kTileM];
  const Element* b[kSets][kColumnsOfWarp];
  int chunk;       // this lane's first, of 16 bytes
  int warp_chunk;  // its warp's first
};

struct Sums {
  float of[kSets][kTileM][kColumnsOfWarp];
};

__device__ __forceinline__ Lines lines_of(const Params& params, int batch) {
  const int warp = threadIdx.x / 32;
  const int column = static_cast<int>(blockIdx.x) * kTileN + warp / kWarpsK * kColumnsOfWarp;
  Lines lines;
  lines.warp_chunk = warp % kWarpsK * 32;
  lines.chunk = lines.warp_chunk + static_cast<int>(threadIdx.x % 32);
  const int64_t first = int64_t{lines.chunk} * kElementChunk;
#pragma unroll
  for (int i = 0; i < kTileM; ++i)
    lines.a[i] = params.a.pointer + batch * params.a.batch_stride +
                 min(i, params.m - 1) * params.a.row_stride + first;
#pragma unroll
  for (int s = 0; s < kSets; ++s)
#pragma unroll
    for (int i = 0; i < kColumnsOfWarp; ++i)
      lines.b[s][i] = params.b[s].pointer + batch * params.b[s].batch_stride +
                      min(column + i, params.n - 1) * params.b[s].row_stride + first;
  return lines;
}

// Prefetches the weights that this warp loads first; each lane takes a row and a step.
__device__ __forceinline__ void prefetch_weights(const Params& params, int batch) {
  constexpr int kRowsOfWarp = kSets * kColumnsOfWarp;
  static_assert(kRowsOfWarp * kAhead <= 32);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane >= kRowsOfWarp * kAhead) return;
  const int place = lane % kColumnsOfWarp, step = lane / kRowsOfWarp;
  const Matrix& b = params.b[kSets == 1 ? 0 : lane / kColumnsOfWarp % kSets];
  const int column =
      static_cast<int>(blockIdx.x) * kTileN + warp / kWarpsK * kColumnsOfWarp + place;
  const int first = warp % kWarpsK * 32 + step * kStepChunks;
  const int chunks = min(32, params.k / kElementChunk - first);
  if (chunks > 0 && column < params.n)
    prefetch_run(
        b.pointer + batch * b.batch_stride + column * b.row_stride + int64_t{first} * kElementChunk,
        chunks * 16);
}

__device__ __forceinline__ void numbers_of_chunk(const uint32_t (&word)[4],
                                                 float (&number)[kElementChunk]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) numbers_of(word[i], number[2 * i], number[2 * i + 1]);
}

__device__ __forceinline__ void multiply_chunk(const uint32_t (&a)[kTileM][4],
                                               const uint32_t (&b)[kSets][kColumnsOfWarp][4],
                                               Sums& sums) {
  float x[kTileM][kElementChunk];
#pragma unroll
  for (int m = 0; m < kTileM; ++m) numbers_of_chunk(a[m], x[m]);
#pragma unroll
  for (int s = 0; s < kSets; ++s)
#pragma unroll
    for (int i = 0; i < kColumnsOfWarp; ++i) {
      float weight[kElementChunk];
      numbers_of_chunk(b[s][i], weight);
#pragma unroll
      for (int m = 0; m < kTileM; ++m)
#pragma unroll
        for (int k = 0; k < kElementChunk; ++k)
          sums.of[s][m][i] = fmaf(x[m][k], weight[k], sums.of[s][m][i]);
    }
}

// Multiplies kAhead steps from the lines' place on. WHOLE: none is beyond the end. Otherwise chunks
// from number `left` on, counted from the lane's place, count as 0.
template <bool WHOLE>
__device__ __forceinline__ void multiply_steps(const Lines& lines, int left, Sums& sums) {
  uint32_t b[kAhead][kSets][kColumnsOfWarp][4] = {};
#pragma unroll
  for (int step = 0; step < kAhead; ++step)
#pragma unroll
    for (int s = 0; s < kSets; ++s)
#pragma unroll
      for (int i = 0; i < kColumnsOfWarp; ++i)
        if (WHOLE || step * kStepChunks < left)
          load_once(lines.b[s][i] + step * kStepChunks * kElementChunk, b[step][s][i]);
#pragma unroll
  for (int step = 0; step < kAhead; ++step) {
    uint32_t a[kTileM][4] = {};
#pragma unroll
    for (int m = 0; m < kTileM; ++m)
      if (WHOLE || step * kStepChunks < left)
        load_four(lines.a[m] + step * kStepChunks * kElementChunk, a[m]);
    multiply_chunk(a, b[step], sums);
  }
}

__device__ __forceinline__ void advance(Lines& lines, int chunks) {
#pragma unroll
  for (auto& a : lines.a) a += chunks * kElementChunk;
#pragma unroll
  for (auto& set : lines.b)
#pragma unroll
    for (auto& b : set) b += chunks * kElementChunk;
  lines.chunk += chunks;
  lines.warp_chunk += chunks;
}

// Multiplies the values of k after the last whole chunk, in the lane whose chunk they begin.
__device__ __forceinline__ void multiply_rest(const Lines& lines, int count, Sums& sums) {
#pragma unroll 1
  for (int k = 0; k < count; ++k) {
#pragma unroll
    for (int m = 0; m < kTileM; ++m)
#pragma unroll
      for (int s = 0; s < kSets; ++s)
#pragma unroll
        for (int i = 0; i < kColumnsOfWarp; ++i)
          sums.of[s][m][i] = fmaf(number_of(__ldg(lines.a[m] + k)),
                                  number_of(__ldg(lines.b[s][i] + k)), sums.of[s][m][i]);
  }
}

__device__ __forceinline__ void multiply(int k, Lines& lines, Sums& sums) {
  const int chunks = k / kElementChunk;
  constexpr int kLast = (kAhead - 1) * kStepChunks + 31;
#pragma unroll 1
  while (lines.warp_chunk + kLast < chunks) {
    multiply_steps<true>(lines, 0, sums);
    advance(lines, kAhead * kStepChunks);
  }
  if (lines.warp_chunk < chunks) multiply_steps<false>(lines, chunks - lines.chunk, sums);
  const int before = chunks - lines.chunk;
  if (k % kElementChunk != 0 && before >= 0 && before % kStepChunks == 0) {
    advance(lines, before);
    multiply_rest(lines, k % kElementChunk, sums);
  }
}

// Adds the sums over all lanes: in each step a lane keeps one half of its sums and sends the other
// half to the lane that keeps that half. Returns sum number lane / (32 / kSums), in the order of
// Sums.
__device__ __forceinline__ float join_lanes(const Sums& sums) {
  float own[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i)
    own[i] =
        sums.of[i / (kTileM * kColumnsOfWarp)][i / kColumnsOfWarp % kTileM][i % kColumnsOfWarp];
  const int lane = threadIdx.x % 32;
  int bits = 16;
#pragma unroll
  for (int half = kSums / 2; half > 0; half /= 2, bits /= 2) {
    const bool upper = (lane & bits) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float given = upper ? own[i] : own[i + half];
      const float kept = upper ? own[i + half] : own[i];
      own[i] = kept + __uint_as_float(exchange_lanes(__float_as_uint(given), bits));
    }
  }
#pragma unroll
  for (; bits > 0; bits /= 2)
    own[0] += __uint_as_float(exchange_lanes(__float_as_uint(own[0]), bits));
  return own[0];
}

// Writes this warp's sums to shared memory, as rows of the problem, set after set.
__device__ __forceinline__ void keep_sums(const Sums& sums, float* shared) {
  const float sum = join_lanes(sums);
  constexpr int kLanes = 32 / kSums;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, line = lane / kLanes / kColumnsOfWarp;
  if (lane % kLanes == 0)
    shared[warp % kWarpsK * kShareSums + line * kTileN + warp / kWarpsK * kColumnsOfWarp +
           lane / kLanes % kColumnsOfWarp] = sum;
}

// Two neighbouring sums of a row, added over all shares of k.
__device__ __forceinline__ void join_warps(const float* shared, int line, int place,
                                           ChunkAccumulators& to) {
#pragma unroll
  for (int s = 0; s < kSets; ++s)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float* at = shared + (s * kTileM + line) * kTileN + place + i;
      float sum = at[0];
#pragma unroll
      for (int share = 1; share < kWarpsK; ++share) sum += at[share * kShareSums];
      to.set[s][i] = __float_as_uint(sum);
    }
}

__device__ __forceinline__ void run(const Params& params, char* memory) {
  auto* shared = reinterpret_cast<float*>(memory);
  if (kEarly && blockIdx.x < static_cast<uint32_t>(params.first_blocks))
    prefetch_weights(params, blockIdx.z);
  wait_for_previous_kernel();
  allow_next_kernel();
  const int line = static_cast<int>(threadIdx.x) / kPairsOfRow;
  const int place = static_cast<int>(threadIdx.x) % kPairsOfRow * 2;
  const int column = static_cast<int>(blockIdx.x) * kTileN + place;
  const bool finishes = line < params.m && column < params.n;
  const int valid = column + 1 < params.n ? 2 : 1;  // known to be less than a chunk
  Largest largest;
#pragma unroll 1
  for (int batch = blockIdx.z; batch < params.batches; batch += gridDim.z) {
    Lines lines = lines_of(params, batch);
    Sums sums = {};
    if (finishes) prefetch_inputs(params.operands, batch, line, column);
    multiply(params.k, lines, sums);
    ChunkInputs inputs;
    if (finishes) load_inputs(params.operands, batch, line, column, valid, inputs);
    keep_sums(sums, shared);
    __syncthreads();
    if (finishes) {
      ChunkAccumulators accumulators;
      join_warps(shared, line, place, accumulators);
      finish_chunk<false, 1>(params.operands, batch, line, column, valid, inputs, accumulators,
                             largest);
    }
    __syncthreads();
  }
  merge_largest(params.operands, largest);
}

}  // namespace attacca_dot

#endif  // ATTACCA_DEVICE_CODE
