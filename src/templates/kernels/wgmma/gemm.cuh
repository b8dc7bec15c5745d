// A persistent GEMM for sm_90a: one warpgroup's thread loads tiles by TMA, the others multiply them
// by wgmma and finish their own rows: where the accumulators are (direct.cuh), or warps hand them
// over to themselves, slice by slice, so that operands and results move in whole chunks of rows.
#pragma once

#include "wgmma/direct.cuh"
#include "wgmma/direct_swapped.cuh"
#include "wgmma/packed.cuh"
#include "wgmma/ring.cuh"
#include "wgmma/scales.cuh"
#include "wgmma/slices.cuh"
#include "wgmma/split.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

__device__ __forceinline__ Place place_of(const Params& params, int tile, int sharer) {
  const int matrix = params.order.tiles_m * params.order.tiles_n;
  const int batch = tile / matrix;
  const TileIndex at = tile_at(params.order, tile - batch * matrix);
  return {(at.m * kClusterM + sharer % kClusterM) * kTileM,
          (at.n * kClusterN + sharer / kClusterM) * kTileN, batch};
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

// Each of the blocks that share a tile loads its share of it, for all. `early`: B's has begun. `alone`: all, for
// itself.
__device__ __forceinline__ void load_stage(const Params& params, const Shared& shared,
                                           const Place& at, int stage, int k, int block,
                                           [[maybe_unused]] bool early, bool alone) {
  const uint32_t full = shared.full(stage);
  const int sharer = block % kSharers, first_sharer = block - sharer;
  const int block_m = sharer % kClusterM, block_n = sharer / kClusterM;
#if CODE_BITS
  if (!early) {
    barrier_expect(full, kABytes + bytes_of_blocks(params));
    load_blocks(params, shared, at.n, stage, k);
  }
#else
  barrier_expect(full, kStageBytes);
#endif
  constexpr int kShare = kTileM / kClusterN;
  if (alone) {
#pragma unroll
    for (int i = 0; i < kClusterN; ++i)
      copy_box(shared.a(stage) + i * kShare * kRowBytes, &params.a, full, k, at.m + i * kShare,
               at.batch);
  } else {
    int mask = 0;
#pragma unroll
    for (int i = 0; i < kClusterN; ++i) mask |= 1 << (i * kClusterM);
    share_box<kClusterN>(shared.a(stage) + block_n * kShare * kRowBytes, &params.a, full, k,
                         at.m + block_n * kShare, at.batch,
                         mask << (first_sharer + block_m));
  }
#if !CODE_BITS
  const int mask = ((1 << kClusterM) - 1) << (first_sharer + block_n * kClusterM);
  if constexpr (kBKMajor) {
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      if (kShareSets && s != block_m) continue;
#pragma unroll
      for (int i = 0; i < kLoadN; i += kPaired ? kPairRows : kLoadN) {
        const int row = kShareSets ? i : block_m * kLoadN + i;
        share_box<kClusterM>(shared.b_row(stage, s, row), &params.b[s], full, k, at.n + row,
                             at.batch, mask);
      }
    }
  } else {
    // The blocks take turns at the boxes.
    constexpr int kBoxColumns = (kTileN + kColumnBox - 1) / kColumnBox;  // of a set
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
#endif
}

__device__ __forceinline__ void load_all(const Params& params, const Shared& shared, int first,
                                         int step, int block) {
  Schedule schedule(params.tiles, first, step, block);
  Work work;
  int early = 0;  // stages
#if CODE_BITS
  if (Schedule(schedule).take(work))
    early = load_early(params, shared, place_of(params, work.tile, work.sharer).n,
                       k_range(params.k, split_of(block), work.shared));
  wait_for_previous_kernel();
#endif
  Ring ring;
#pragma unroll 1
  while (schedule.take(work)) {
    const Place at = place_of(params, work.tile, work.sharer);
    const KRange range = k_range(params.k, split_of(block), work.shared);
#pragma unroll 1
    for (int k = range.begin; k < range.end; k += kTileK) {
      wait_for(shared.empty(ring.stage), (ring.round & 1) ^ 1);
      load_stage(params, shared, at, ring.stage, k, block, early-- > 0, kSharedTail && work.shared);
      ring.advance();
    }
  }
  allow_next_kernel();
}

#if !CODE_BITS

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
      for (int s = 0; s < kInstructions; ++s)
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

// Each stage is summed by itself. While this warpgroup adds up, others multiply.
__device__ __forceinline__ void multiply_tile_promoting(int k_tiles, const Shared& shared, int group,
                                                        const Readers& readers,
                                                        TileScales& scales, Ring& ring,
                                                        Accumulators& sum) {
#pragma unroll 1
  for (int k = 0; k < k_tiles; ++k) {
    scales.load();
    wait_for(shared.full(ring.stage), ring.round & 1);
    Accumulators part;
    products_begin();
    multiply_stage<true>(shared, ring.stage, group * kGroupParts, part);
    products_commit();
    products_wait<0>();
    pin_all(part);
    readers.release(ring.stage);
    ring.advance();
    scales.add(part, sum);
  }
}

// One stage is multiplied while the one before is on its way through the tensor cores.
__device__ __forceinline__ void multiply_tile(int k_tiles, const Shared& shared, int group,
                                              int block, const Readers& readers,
                                              TileScales& scales, Ring& ring, Accumulators& sum) {
#pragma unroll
  for (auto& part : sum.of_instruction)
#pragma unroll
    for (Sum& value : part) value = 0;
  if constexpr (kPromote) {
    multiply_tile_promoting(k_tiles, shared, group, readers, scales, ring, sum);
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
    if (before >= 0) readers.release(before);
    before = ring.stage;
    ring.advance();
  }
  if constexpr (kPingpong) give_turn(shared, group, block, readers.lane);
  products_wait<0>();
  pin_all(sum);
  if (before >= 0) readers.release(before);
}

#endif  // !CODE_BITS

__device__ __forceinline__ void multiply_all(const Params& params, const Shared& shared,
                                             char* memory, int first, int step, int block) {
  const int thread = threadIdx.x, lane = thread % 32, warp = warp_uniform(thread / 32);
  const int group = warp / 4;
  // Where this warp's first accumulator is along wgmma's M, as the problem counts.
  const int first_row = (kPingpong ? 0 : group * kGroupParts * kPartSide) + warp % 4 * kWarpRows;
  const int split = split_of(block);
  char* own = memory + kSlicesAt + warp * kWarpBytes;
#if SWAPPED
  using Boxes = SwappedBoxes;
#endif
  [[maybe_unused]] Boxes boxes(params, own, shared.boxes(warp), lane);
  [[maybe_unused]] PartialSums partial(memory + kPartialsAt, shared.arrived(warp),
                                       shared.read(warp), block, warp, lane);
#if CODE_BITS
  Widener widener(params, memory, kPingpong ? 0 : group * kGroupParts, warp % 4, lane);
#endif
  Ring ring;
  Largest largest;
  [[maybe_unused]] int turns = 0;
  // Of the tiles that the other warpgroup multiplies.
  const int skipped = kPingpong ? k_range(params.k, split, kSplits > 1).tiles() : 0;
  if (group == 1) ring.skip(skipped);
  Schedule schedule(params.tiles, kPingpong ? first + group * step : first,
                    kPingpong ? 2 * step : step, block);
  Work work;
#pragma unroll 1
  while (schedule.take(work)) {
    Accumulators sum;
    const Place at = place_of(params, work.tile, work.sharer);
    const KRange range = k_range(params.k, split, work.shared);
    const bool finishes = !work.shared || partial.finishes();
    const Readers readers(shared, block, lane, kSharedTail && work.shared);
    if (kDirect && finishes)
      boxes.begin(kSwapped ? Place{at.m, at.n + first_row, at.batch}
                           : Place{at.m + first_row, at.n, at.batch});
    if constexpr (kPingpong) wait_for(shared.turn(group), (turns++ ^ group ^ 1) & 1);
#if CODE_BITS
    multiply_packed(range.tiles(), shared, group, block, readers, ring, widener, sum);
#else
    TileScales scales(params, at, first_row, range.begin / kTileK, lane);
    multiply_tile(range.tiles(), shared, group, block, readers, scales, ring, sum);
#endif
    if (kPingpong) ring.skip(skipped);
    if constexpr (kSplits > 1) {
      if (kSharedTail && work.shared) leave_ring(shared, split, lane);
      if (!finishes) {
        partial.send(sum);
        continue;
      }
      if (work.shared) partial.add_to(sum);
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
  if (threadIdx.x == kConsumers * kGroupThreads) prefetch_maps(params);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(shared.full(stage), 1);
      barrier_init(shared.empty(stage), kSharers * (kPingpong ? 1 : kConsumers) * 4);
    }
    for (int group = 0; group < 2; ++group) barrier_init(shared.turn(group), 4);
    for (int i = 0; i < (kSplits > 1 ? 3 : 1) * kWarps; ++i) barrier_init(shared.boxes(i), 1);
    if (kSharedTail) barrier_init(shared.drained(), kWarps);
    barrier_init_fence();
  }
  if constexpr (kCluster > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  // The loading thread of packed weights waits by itself.
  if (!kPacked || threadIdx.x < kConsumers * kGroupThreads) wait_for_previous_kernel();
  const int first = static_cast<int>(blockIdx.x) / kCluster;
  const int step = static_cast<int>(gridDim.x) / kCluster;
  // Registers go where the accumulators are.
  constexpr bool kMoveRegisters = kConsumers == 2 && BLOCKS <= 2;
  if (threadIdx.x >= kConsumers * kGroupThreads) {
    if constexpr (kMoveRegisters) release_registers<40>();
    const int warp = warp_uniform(threadIdx.x / 32);
    if (warp == kConsumers * 4 && elected()) load_all(params, shared, first, step, block);
    if (warp == kConsumers * 4 + 1) {
      Schedule schedule(params.tiles, first, step, block);
      Work work;
#pragma unroll 1
      while (schedule.take(work))
        prefetch_operands(params, place_of(params, work.tile, work.sharer), threadIdx.x % 32);
    }
  } else {
    if constexpr (kMoveRegisters) claim_registers<BLOCKS == 1 ? 232 : 96>();
    multiply_all(params, shared, memory, first, step, block);
  }
  // No block leaves while another one copies to it or arrives at its barriers.
  if constexpr (kCluster > 1) cluster_sync();
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
