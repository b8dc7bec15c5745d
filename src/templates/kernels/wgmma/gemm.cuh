// A persistent GEMM for sm_90a: one warpgroup's thread loads tiles by TMA, the others multiply them
// by wgmma and finish their own rows: where the accumulators are (direct.cuh), or warps hand them
// over to themselves, slice by slice, so that operands and results move in whole chunks of rows.
#pragma once

#include "wgmma/direct.cuh"
#include "wgmma/split.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// Which stage comes next, and how often the ring was walked.
struct Ring {
  int stage = 0;
  uint32_t round = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      ++round;
    }
  }
  __device__ __forceinline__ void skip(int stages) {
    round += (stage + stages) / kStages;
    stage = (stage + stages) % kStages;
  }
};

struct Shared {
  uint32_t base;
  __device__ __forceinline__ uint32_t a(int stage) const { return base + stage * kStageBytes; }
  __device__ __forceinline__ uint32_t b(int stage, int set) const {
    return a(stage) + kABytes + set * kBBytes;
  }
  // A stage is full when its copies have come, empty when all warps that share it have read it.
  __device__ __forceinline__ uint32_t full(int stage) const {
    return base + kBarriersAt + stage * 8;
  }
  __device__ __forceinline__ uint32_t empty(int stage) const { return full(kStages + stage); }
  // Pingpong: a warpgroup's turn to multiply, when the other one has seen its last stage. A barrier
  // tells a phase from the one before alone, so none may wait for stages further ahead.
  __device__ __forceinline__ uint32_t turn(int group) const { return full(2 * kStages + group); }
  // Direct: the boxes of the full operand of a warp have come.
  __device__ __forceinline__ uint32_t boxes(int warp) const { return turn(2 + warp); }
  // Split: a warp's partial sums have come; were read.
  __device__ __forceinline__ uint32_t arrived(int warp) const { return boxes(kWarps + warp); }
  __device__ __forceinline__ uint32_t read(int warp) const { return arrived(kWarps + warp); }
};

__device__ __forceinline__ Place place_of(const Params& params, int tile, int block) {
  const int matrix = params.order.tiles_m * params.order.tiles_n;
  const int batch = tile / matrix;
  const TileIndex at = tile_at(params.order, tile - batch * matrix);
  return {(at.m * kClusterM + block % kClusterM) * kTileM,
          (at.n * kClusterN + block / kClusterM) * kTileN, batch};
}

// To the blocks of the cluster that `mask` names.
template <int BLOCKS_OF_MASK>
__device__ __forceinline__ void share_box(uint32_t to, const Map* map, uint32_t barrier, int inner,
                                          int outer, int batch, int mask) {
  if constexpr (BLOCKS_OF_MASK == 1) {
    copy_box(to, map, barrier, inner, outer, batch);
  } else {
    copy_box_to_cluster(to, map, barrier, inner, outer, batch, static_cast<uint16_t>(mask));
  }
}

// Each block of a cluster loads its share of a common tile, for all.
__device__ __forceinline__ void load_stage(const Params& params, const Shared& shared,
                                           const Place& at, int stage, int k, int block) {
  const uint32_t full = shared.full(stage);
  const int block_m = block % kClusterM, block_n = block / kClusterM;
  barrier_expect(full, kStageBytes);
  {
    constexpr int kShare = kTileM / kClusterN;
    int mask = 0;
#pragma unroll
    for (int i = 0; i < kClusterN; ++i) mask |= 1 << (i * kClusterM);
    share_box<kClusterN>(shared.a(stage) + block_n * kShare * kRowBytes, &params.a, full, k,
                         at.m + block_n * kShare, at.batch, mask << block_m);
  }
  const int mask = ((1 << kClusterM) - 1) << (block_n * kClusterM);
  if constexpr (kBKMajor) {
    constexpr int kShare = kTileN / kClusterM;
#pragma unroll
    for (int s = 0; s < kSets; ++s)
      share_box<kClusterM>(shared.b(stage, s) + block_m * kShare * kRowBytes, &params.b[s], full, k,
                           at.n + block_m * kShare, at.batch, mask);
  } else {
    // The blocks take turns at the boxes.
    constexpr int kBoxColumns = kTileN / kColumnBox;  // of a set
#pragma unroll
    for (int i = 0; i < kSets * kBoxColumns; ++i) {
      if (i % kClusterM != block_m) continue;
      const int column =
          kAlternate ? 2 * at.n + i * kColumnBox : at.n + i % kBoxColumns * kColumnBox;
      share_box<kClusterM>(shared.b(stage, 0) + i * kColumnBoxBytes,
                           &params.b[kAlternate ? 0 : i / kBoxColumns], full, column, k, at.batch,
                           mask);
    }
  }
}

__device__ __forceinline__ void load_all(const Params& params, const Shared& shared, int first,
                                         int step, int block) {
  const KRange range = k_range(params.k, block / kSharers);
  Ring ring;
#pragma unroll 1
  for (int tile = first; tile < params.tiles; tile += step) {
    const Place at = place_of(params, tile, block % kSharers);
#pragma unroll 1
    for (int k = range.begin; k < range.end; k += kTileK) {
      wait_for(shared.empty(ring.stage), (ring.round & 1) ^ 1);
      load_stage(params, shared, at, ring.stage, k, block % kSharers);
      ring.advance();
    }
  }
  allow_next_kernel();
}

// This warpgroup's rows of the stage, from its first part on, by the other side's. FRESH: the sum is
// of this stage alone, whatever it was.
template <bool FRESH>
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, int first_part,
                                               Accumulators& sum) {
  // 64 rows of A by rows, or 64 columns of B by boxes, are as long.
  const int own = first_part * kPartRows * kRowBytes;
  static_assert(kColumnBoxBytes == kPartRows * kRowBytes);
#pragma unroll
  for (int step = 0; step < kRowBytes / kStepBytes; ++step) {
    const bool add = !FRESH || step > 0;
    const int k = step * kStepBytes;
    const int b_at = kBKMajor ? k : step * 16 * kRowBytes;
    if constexpr (kSwapped) {
      const uint64_t a = tile_descriptor<false>(shared.a(stage) + k);
#pragma unroll
      for (int s = 0; s < kSets; ++s)
        multiply<!kBKMajor, false>(sum.of_instruction[s],
                                   tile_descriptor<!kBKMajor>(shared.b(stage, s) + own + b_at), a,
                                   add);
    } else {
      const uint64_t b = tile_descriptor<!kBKMajor>(shared.b(stage, 0) + b_at);
#pragma unroll
      for (int part = 0; part < kGroupParts; ++part)
        multiply<false, !kBKMajor>(
            sum.of_instruction[part],
            tile_descriptor<false>(shared.a(stage) + own + part * kPartRows * kRowBytes + k), b,
            add);
    }
  }
}

// Tells every block that shares the stage that this warp has read it.
__device__ __forceinline__ void release(const Shared& shared, int stage, int block, int lane) {
  if (lane < kSharers) barrier_arrive(shared.empty(stage), block / kSharers * kSharers + lane);
}

__device__ __forceinline__ void pin_all(Accumulators& sum) {
#pragma unroll
  for (auto& part : sum.of_instruction)
#pragma unroll
    for (Sum& value : part) pin(value);
}

// Each stage is summed by itself. While this warpgroup adds up, others multiply.
__device__ __forceinline__ void multiply_tile_promoting(int k_tiles, const Shared& shared, int group,
                                                        int block, int lane, Ring& ring,
                                                        Accumulators& sum) {
#pragma unroll 1
  for (int k = 0; k < k_tiles; ++k) {
    wait_for(shared.full(ring.stage), ring.round & 1);
    Accumulators part;
    products_begin();
    multiply_stage<true>(shared, ring.stage, group * kGroupParts, part);
    products_commit();
    products_wait<0>();
    pin_all(part);
    release(shared, ring.stage, block, lane);
    ring.advance();
#pragma unroll
    for (int i = 0; i < kInstructions; ++i)
#pragma unroll
      for (int j = 0; j < kInstructionN / 2; ++j)
        sum.of_instruction[i][j] += part.of_instruction[i][j];
  }
}

// One stage is multiplied while the one before is on its way through the tensor cores.
__device__ __forceinline__ void multiply_tile(int k_tiles, const Shared& shared, int group,
                                              int block, int lane, Ring& ring, Accumulators& sum) {
#pragma unroll
  for (auto& part : sum.of_instruction)
#pragma unroll
    for (Sum& value : part) value = 0;
  if constexpr (kPromote) {
    multiply_tile_promoting(k_tiles, shared, group, block, lane, ring, sum);
    return;
  }
  int before = -1;
#pragma unroll 1
  for (int k = 0; k < k_tiles; ++k) {
    wait_for(shared.full(ring.stage), ring.round & 1);
    products_begin();
    multiply_stage<false>(shared, ring.stage, kPingpong ? 0 : group * kGroupParts, sum);
    products_commit();
    products_wait<1>();
    if (before >= 0) release(shared, before, block, lane);
    before = ring.stage;
    ring.advance();
  }
  if constexpr (kPingpong) {
    // Without a product, a lane may still wait for its turn, which must not pass twice.
    __syncwarp();
    if (lane == 0) barrier_arrive(shared.turn(1 - group), block);
  }
  products_wait<0>();
  pin_all(sum);
  if (before >= 0) release(shared, before, block, lane);
}

// Where an element of a slice lies. Rows of 32 are turned, others padded, so that their writing meets
// no bank twice.
__device__ __forceinline__ int slice_offset(int row, int column) {
  if constexpr (kSlicePitch != 32) return row * kSlicePitch + column;
  return row * kSlicePitch + (column ^ ((row & 3) * 8 + (row & 1) * 4));
}

// Of alternate columns, values i, i + 1 are of both sets.
__device__ __forceinline__ void keep_alternate(const Accumulators& sum, int slice, int odd_first,
                                               int lane, uint32_t* own) {
  uint32_t* const to[2] = {own + odd_first * kSliceValues, own + (1 - odd_first) * kSliceValues};
#pragma unroll
  for (int i = 0; i < kGroupParts * kSlices; ++i) {
    if (i != slice) continue;
#pragma unroll
    for (int part = 0; part < 2 * kSliceN / 8; ++part) {
#pragma unroll
      for (int v = 0; v < 4; ++v)
        to[v % 2][slice_offset(lane / 4 + v / 2 * 8, part * 4 + lane % 4)] =
            raw_bits(
                sum.of_instruction[i / kSlices][(i % kSlices * (2 * kSliceN / 8) + part) * 4 + v]);
    }
  }
}

// Values i, i + 1 of a set are neighbours along what wgmma calls N, i + 2, i + 3 are 8 rows below
// them, i + 4 is 8 columns further.
__device__ __forceinline__ void keep_slice(const Accumulators& sum,
                                           int slice, int lane, uint32_t* own) {
  constexpr int kSliceParts = kSwapped ? kSliceM / 8 : kSliceN / 8;
#pragma unroll
  for (int i = 0; i < kGroupParts * kSlices; ++i) {
    // Registers have no index: each slice has its own code.
    if (i != slice) continue;
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      uint32_t* to = own + s * kSliceValues;
#pragma unroll
      for (int part = 0; part < kSliceParts; ++part) {
        uint32_t four[4];
#pragma unroll
        for (int v = 0; v < 4; ++v) four[v] = raw_bits(sum.value(i / kSlices, s, (i % kSlices * kSliceParts + part) * 4 + v));
        const int low = lane / 4, pair = part * 8 + lane % 4 * 2;
        if constexpr (kSwapped) {
#pragma unroll
          for (int v = 0; v < 4; ++v) to[slice_offset(pair + v % 2, low + v / 2 * 8)] = four[v];
        } else {
          *reinterpret_cast<uint2*>(to + slice_offset(low, pair)) = make_uint2(four[0], four[1]);
          *reinterpret_cast<uint2*>(to + slice_offset(low + 8, pair)) =
              make_uint2(four[2], four[3]);
        }
      }
    }
  }
}

__device__ __forceinline__ void load_values(const uint32_t* own, int row, int column,
                                            uint32_t (&to)[kChunk]) {
#pragma unroll
  for (int i = 0; i < kChunk; i += 4) {
    const uint4 four = *reinterpret_cast<const uint4*>(own + slice_offset(row, column + i));
    to[i] = four.x;
    to[i + 1] = four.y;
    to[i + 2] = four.z;
    to[i + 3] = four.w;
  }
}

// `at`: of the slice.
__device__ __forceinline__ void finish_slice(const Params& params, const Place& at, int lane,
                                             const uint32_t* own, Largest& largest) {
  constexpr int kRowChunks = kSliceN / kChunk;
#pragma unroll 1
  for (int chunk = lane; chunk < kSliceM * kRowChunks; chunk += 32) {
    const int line = chunk / kRowChunks, place = chunk % kRowChunks * kChunk;
    const int row = at.m + line, column = at.n + place;
    const int valid = row < params.m ? min(kChunk, params.n - column) : 0;
    if (valid <= 0) continue;
    ChunkInputs inputs;
    load_inputs(params.operands, at.batch, row, column, valid, inputs);
    ChunkAccumulators accumulators;
#pragma unroll
    for (int s = 0; s < kSets; ++s)
      load_values(own + s * kSliceValues, line, place, accumulators.set[s]);
    finish_chunk(params.operands, at.batch, row, column, valid, inputs, accumulators, largest);
  }
}

// Slice by slice, this warp's accumulators of the tile.
__device__ __forceinline__ void finish_slices(const Params& params, const Place& at, int first_row,
                                              int lane, uint32_t* own, const Accumulators& sum,
                                              Largest& largest) {
#pragma unroll 1
  for (int slice = 0; slice < kGroupParts * kSlices; ++slice) {
    const int row = first_row + slice / kSlices * kPartRows;
    const Place part = kSwapped
                           ? Place{at.m + slice * kSliceM, at.n + row, at.batch}
                           : Place{at.m + row, at.n + slice % kSlices * kSliceN, at.batch};
    if constexpr (kAlternate) {
      keep_alternate(sum, slice, params.odd_first, lane, own);
    } else {
      keep_slice(sum, slice, lane, own);
    }
    __syncwarp();
    finish_slice(params, part, lane, own, largest);
    __syncwarp();
  }
}

__device__ __forceinline__ void multiply_all(const Params& params, const Shared& shared,
                                             char* memory, int first, int step, int block) {
  const int thread = threadIdx.x, lane = thread % 32, warp = warp_uniform(thread / 32);
  const int group = warp / 4;
  // Where this warp's first accumulator is along wgmma's M.
  const int first_row = (kPingpong ? 0 : group * kGroupParts * kPartRows) + warp % 4 * 16;
  const int split = block / kSharers;
  const int k_tiles = k_range(params.k, split).tiles();
  char* own = memory + kSlicesAt + warp * kWarpBytes;
  [[maybe_unused]] Boxes boxes(params, own, shared.boxes(warp), lane);
  [[maybe_unused]] PartialSums partial(memory + kPartialsAt, shared.arrived(warp),
                                       shared.read(warp), split, warp, lane);
  Ring ring;
  Largest largest;
  [[maybe_unused]] int turns = 0;
  if (kPingpong && group == 1) ring.skip(k_tiles);
#pragma unroll 1
  for (int tile = kPingpong ? first + group * step : first; tile < params.tiles;
       tile += kPingpong ? 2 * step : step) {
    Accumulators sum;
    const Place at = place_of(params, tile, block % kSharers);
    if (kDirect && partial.finishes()) boxes.begin({at.m + first_row, at.n, at.batch});
    if constexpr (kPingpong) wait_for(shared.turn(group), (turns++ ^ group ^ 1) & 1);
    multiply_tile(k_tiles, shared, group, block, lane, ring, sum);
    if (kPingpong) ring.skip(k_tiles);
    if constexpr (kSplits > 1) {
      if (!partial.finishes()) {
        partial.send(sum);
        continue;
      }
      partial.add_to(sum);
    }
    if constexpr (kDirect) {
      boxes.finish(sum, largest);
    } else {
      finish_slices(params, at, first_row, lane, reinterpret_cast<uint32_t*>(own), sum, largest);
    }
  }
  if constexpr (kDirect) boxes.end();
  merge_largest(params.operands, largest);
}

__device__ __forceinline__ void run(const Params& params, char* memory) {
  const Shared shared{shared_address(memory)};
  const int block = kCluster > 1 ? static_cast<int>(block_in_cluster()) : 0;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(shared.full(stage), 1);
      barrier_init(shared.empty(stage), kSharers * (kPingpong ? 1 : kConsumers) * 4);
    }
    for (int group = 0; group < 2; ++group) barrier_init(shared.turn(group), 4);
    for (int i = 0; i < (kSplits > 1 ? 3 : 1) * kWarps; ++i) barrier_init(shared.boxes(i), 1);
    barrier_init_fence();
  }
  if constexpr (kCluster > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  wait_for_previous_kernel();
  const int first = static_cast<int>(blockIdx.x) / kCluster;
  const int step = static_cast<int>(gridDim.x) / kCluster;
  // Registers go where the accumulators are.
  constexpr bool kMoveRegisters = kConsumers == 2;
  if (threadIdx.x >= kConsumers * kGroupThreads) {
    if constexpr (kMoveRegisters) release_registers<40>();
    if (threadIdx.x == kConsumers * kGroupThreads) load_all(params, shared, first, step, block);
  } else {
    if constexpr (kMoveRegisters) claim_registers<232>();
    multiply_all(params, shared, memory, first, step, block);
  }
  // No block leaves while another one copies to it or arrives at its barriers.
  if constexpr (kCluster > 1) cluster_sync();
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
