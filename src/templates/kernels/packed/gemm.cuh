// A x packed weights for few rows of A. The weights are the M side of mma.sync and are read once,
// at the memory's bandwidth. Warps and the blocks of a cluster share the values of k; their sums
// are added in shared memory in a fixed order, and each block of the cluster finishes its share of
// the tile.
#pragma once

#include "common/prefetch_inputs.cuh"
#include "packed/stream.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_packed_weights {

constexpr int kRowChunks = kTileN / kChunk, kTileChunks = kTileM * kRowChunks;

// A chunk of the tile.
struct ChunkPlace {
  int line, offset;  // in the tile
  int row, column;   // in the problem
  int valid;         // elements; 0 or less: beyond the end
};

__device__ __forceinline__ ChunkPlace place_of(const Params& params, const Part& part, int chunk) {
  ChunkPlace at;
  at.line = chunk / kRowChunks;
  at.offset = chunk % kRowChunks * kChunk;
  at.row = part.m + at.line;
  at.column = part.n + at.offset;
  at.valid = chunk < kTileChunks && at.row < params.m ? min(kChunk, params.n - at.column) : 0;
  return at;
}

// The blocks of a cluster take chunks in turn.
__device__ __forceinline__ int first_chunk(int thread, int block) {
  return thread * kCluster + block;
}

template <bool ZEROS, int TOGETHER>
__device__ __forceinline__ void multiply(const Params& params, const Part& part, int block,
                                         char* memory, Sums& sums) {
  Stream<ZEROS, TOGETHER> stream(params, part, memory);
  stream.begin();
  const int thread = static_cast<int>(threadIdx.x);
  // Prefetch another thread's first chunk: the place of its own would stay in registers until the
  // end.
  const ChunkPlace at = place_of(params, part, first_chunk(kThreads - 1 - thread, block));
  if (at.valid > 0) prefetch_inputs(params.operands, 0, at.row, at.column);
  if constexpr (!kPortable) {
    wait_for_previous_kernel();
    allow_next_kernel();
  }
  stream.multiply(sums);
}

// Writes this warp's sums to shared memory, as rows of the problem.
__device__ __forceinline__ void keep_sums(const Sums& sums, float* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float* own = shared + warp / kWarpsN * kTileM * kPitch + warp % kWarpsN * kWarpN;
#pragma unroll
  for (int f = 0; f < kFragments; ++f)
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        own[(t * 8 + lane % 4 * 2 + i % 2) * kPitch + f * 16 + lane / 4 + i / 2 * 8] =
            sums.of[f][t][i];
}

__device__ __forceinline__ void add(float4& to, const float4& more) {
  to.x += more.x;
  to.y += more.y;
  to.z += more.z;
  to.w += more.w;
}

// Adds the sums of the block's warps that share k.
__device__ __forceinline__ void join_warps(float* shared) {
  constexpr int kRowParts = kTileN / 4;
#pragma unroll 1
  for (int part = threadIdx.x; part < kTileM * kRowParts; part += kThreads) {
    auto* first =
        reinterpret_cast<float4*>(shared + part / kRowParts * kPitch + part % kRowParts * 4);
    float4 sum = *first;
#pragma unroll
    for (int share = 1; share < kWarpsK; ++share) add(sum, first[share * (kTileM * kPitch / 4)]);
    *first = sum;
  }
}

// Eight neighbouring sums of a row, added over the blocks of the cluster.
__device__ __forceinline__ void joined_sums(const float* shared, int row, int column,
                                            uint32_t (&to)[kChunk]) {
  const float* at = shared + row * kPitch + column;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float4 sum = {0, 0, 0, 0};
    if constexpr (kCluster == 1) {
      sum = reinterpret_cast<const float4*>(at)[half];
    } else {
#pragma unroll
      for (int block = 0; block < kCluster; ++block)
        add(sum, load_from_block(shared_address(at + half * 4), block));
    }
    to[half * 4] = __float_as_uint(sum.x);
    to[half * 4 + 1] = __float_as_uint(sum.y);
    to[half * 4 + 2] = __float_as_uint(sum.z);
    to[half * 4 + 3] = __float_as_uint(sum.w);
  }
}

template <bool WHOLE>
__device__ __forceinline__ void load_chunk_inputs(const Params& params, const ChunkPlace& at,
                                                  ChunkInputs& inputs) {
  if (at.valid > 0) load_inputs<WHOLE>(params.operands, 0, at.row, at.column, at.valid, inputs);
}

// `inputs`: of the first chunk. Their loads overlap with the addition of the warps' sums.
template <bool WHOLE>
__device__ __forceinline__ void finish(const Params& params, const Part& part, int block,
                                       const float* shared, ChunkInputs& inputs) {
  Largest largest;
#pragma unroll 1
  for (int chunk = first_chunk(static_cast<int>(threadIdx.x), block);;) {
    const ChunkPlace at = place_of(params, part, chunk);
    if (at.valid > 0) {
      ChunkAccumulators accumulators;
      joined_sums(shared, at.line, at.offset, accumulators.set[0]);
      finish_chunk<WHOLE>(params.operands, 0, at.row, at.column, at.valid, inputs, accumulators,
                          largest);
    }
    chunk += kThreads * kCluster;
    if (chunk >= kTileChunks) break;
    load_chunk_inputs<WHOLE>(params, place_of(params, part, chunk), inputs);
  }
  merge_largest(params.operands, largest);
}

__device__ __forceinline__ void run(const Params& params, char* memory) {
  const int block = kCluster > 1 ? static_cast<int>(block_in_cluster()) : 0;
  Part part;
  part.m = blockIdx.y * kTileM;
  part.n = static_cast<int>(blockIdx.x) / kCluster * kTileN;
  part.first = min(block * params.share, params.weights.blocks_k);
  part.last = min(part.first + params.share, params.weights.blocks_k);
  Sums sums = {};
  const bool together = kTogether > 1 && params.weights.group_shift > 0;
  if (params.weights.has_zeros) {
    if (together) {
      multiply<true, kTogether>(params, part, block, memory, sums);
    } else {
      multiply<true, 1>(params, part, block, memory, sums);
    }
  } else if (together) {
    multiply<false, kTogether>(params, part, block, memory, sums);
  } else {
    multiply<false, 1>(params, part, block, memory, sums);
  }
  auto* shared = reinterpret_cast<float*>(memory);
  ChunkInputs inputs;
  const ChunkPlace at = place_of(params, part, first_chunk(static_cast<int>(threadIdx.x), block));
  if (params.whole) {
    load_chunk_inputs<true>(params, at, inputs);
  } else {
    load_chunk_inputs<false>(params, at, inputs);
  }
  __syncthreads();
  keep_sums(sums, shared);
  __syncthreads();
  if constexpr (kWarpsK > 1) {
    join_warps(shared);
    if constexpr (kCluster == 1) __syncthreads();
  }
  if constexpr (kCluster > 1) cluster_sync();
  if (params.whole) {
    finish<true>(params, part, block, shared, inputs);
  } else {
    finish<false>(params, part, block, shared, inputs);
  }
  // A block must not exit while another one reads its sums.
  if constexpr (kCluster > 1) cluster_sync();
}

}  // namespace attacca_packed_weights

#endif  // ATTACCA_DEVICE_CODE
