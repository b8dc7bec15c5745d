// A persistent GEMM for sm_90a. One thread of the last warpgroup loads tiles by TMA; the other
// warpgroups multiply them by wgmma and apply the epilogue to their rows. A kernel has three parts
//   pipeline/  the ring of stages in shared memory, the loading thread, tiles whose K blocks share
//   Feed       what B is, how its tiles are loaded and multiplied: feed/, packed/feed.cuh
//   Finish     how accumulators become results: finish/
// and Tiles, which tiles there are: AllTiles of pipeline/producer.cuh, or grouped/tiles.cuh; Rows,
// where those of A lie: BoxRows of pipeline/producer.cuh, or grouped/gather.cuh.
#pragma once

#include "wgmma/finish/prefetch.cuh"
#include "wgmma/pipeline/producer.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

template <class Feed, class Finish, class Tiles>
__device__ __forceinline__ void multiply_all(const Params& params, const Shared& shared,
                                             Tiles tiles, char* memory, int first, int step,
                                             int block) {
  const Consumer consumer(params, shared, memory, block, threadIdx.x);
  const int group = consumer.group, warp = consumer.warp, lane = consumer.lane;
  const int split = split_of(block);
  Finish finish(consumer);
  [[maybe_unused]] PartialSums partial(memory + kPartialsAt, shared.arrived(warp),
                                       shared.read(warp), block, warp, lane);
  Feed feed(consumer);
  Ring ring;
  Largest largest;
  [[maybe_unused]] int turns = 0;
  // Stages of a tile, which this warpgroup skips while the other one multiplies.
  const int skipped = kPingpong ? k_range(params.k, split, kSplits > 1).tiles() : 0;
  if (group == 1) ring.skip(skipped);
  Schedule schedule(tiles.count(), kPingpong ? first + group * step : first,
                    kPingpong ? 2 * step : step, block);
  Work work;
#pragma unroll 1
  while (schedule.take(work)) {
    Accumulators sum;
    const Place at = tiles.place(work);
    const KRange range = k_range(tiles.k(at), split, work.shared);
    const bool finishes = !work.shared || partial.finishes();
    const Readers readers(shared, block, lane, kSharedTail && work.shared);
    if (finishes) finish.begin(at);
    if constexpr (kPingpong) wait_for(shared.turn(group), (turns++ ^ group ^ 1) & 1);
    feed.multiply_tile(shared, at, range, readers, ring, sum);
    if (kPingpong) ring.skip(skipped);
    if constexpr (kSplits > 1) {
      if (kSharedTail && work.shared) leave_ring(shared, split, lane);
      if (!finishes) {
        partial.send(sum);
        continue;
      }
      if (work.shared) partial.add_to(sum);
    }
    finish.finish(at, sum, largest);
  }
  finish.end();
  merge_largest(params.operands, largest);
}

// `loading`: the threads that arrive at a full stage.
__device__ __forceinline__ void init_barriers(const Shared& shared, int loading) {
  for (int stage = 0; stage < kStages; ++stage) {
    barrier_init(shared.full(stage), loading);
    barrier_init(shared.empty(stage), kSharers * (kPingpong ? 1 : kConsumers) * 4);
  }
  for (int group = 0; group < 2; ++group) barrier_init(shared.turn(group), 4);
  for (int i = 0; i < (kSplits > 1 ? 3 : 1) * kWarps; ++i) barrier_init(shared.boxes(i), 1);
  if (kSharedTail) barrier_init(shared.drained(), kWarps);
  barrier_init_fence();
}

template <class Feed, class Finish, class Tiles = AllTiles, class Rows = BoxRows>
__device__ __forceinline__ void run_parts(const Params& params, char* memory) {
  const Shared shared{shared_address(memory)};
  const int block = kCluster > 1 ? static_cast<int>(block_in_cluster()) : 0;
  if (threadIdx.x == kConsumers * kGroupThreads) {
    Rows::prefetch_maps(params);
    Feed::prefetch_maps(params);
    Finish::prefetch_maps(params);
  }
  if (threadIdx.x == 0) init_barriers(shared, 1 + Rows::kCopyThreads + (kStagedScales ? 32 : 0));
  if constexpr (kCluster > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  // A Feed that loads weights early waits in load_all().
  if (!Feed::kEarly || threadIdx.x < kConsumers * kGroupThreads) wait_for_previous_kernel();
  Tiles tiles(params, memory);
  const int first = static_cast<int>(blockIdx.x) / kCluster;
  const int step = static_cast<int>(gridDim.x) / kCluster;
  // The loading warpgroup gives registers to those that hold accumulators.
  constexpr bool kMoveRegisters = kConsumers == 2 && kBlocks <= 2;
  constexpr int kLoaderRegisters = kBlocks != 1 ? 40 : kCodes ? 72 : kGathered ? 56 : 40;
  constexpr int kConsumerRegisters = kBlocks != 1 ? 96 : kCodes ? 216 : kGathered ? 224 : 232;
  if (threadIdx.x >= kConsumers * kGroupThreads) {
    if constexpr (kMoveRegisters) release_registers<kLoaderRegisters>();
    const int warp = warp_uniform(threadIdx.x / 32);
    if (warp == kConsumers * 4 && elected())
      load_all<Feed, Rows>(params, shared, tiles, first, step, block);
    // Where two warps copy rows, one that copies scales has no time to prefetch.
    constexpr int kScalesWarp = Rows::kCopyThreads > 0 ? 1 : 2;
    constexpr bool kPrefetches = !kStagedScales || kScalesWarp != 1;
    if (kPrefetches && warp == kConsumers * 4 + 1) {
      Schedule schedule(tiles.count(), first, step, block);
      Work work;
#pragma unroll 1
      while (schedule.take(work))
        prefetch_operands<Finish::kPrefetchFulls>(params, tiles.place(work), threadIdx.x % 32);
    }
    if constexpr (Rows::kCopyThreads > 0)
      if (warp >= kConsumers * 4 + 2)
        Rows::copy_all(params, shared, tiles, memory, Schedule(tiles.count(), first, step, block));
    if constexpr (kStagedScales) {
      if (warp == kConsumers * 4 + kScalesWarp)
        Feed::load_scales(params, shared, tiles, memory, first, step, block);
    }
  } else {
    if constexpr (kMoveRegisters) claim_registers<kConsumerRegisters>();
    multiply_all<Feed, Finish>(params, shared, tiles, memory, first, step, block);
  }
  // A block must not exit while another one copies to it or arrives at its barriers.
  if constexpr (kCluster > 1) cluster_sync();
}

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
