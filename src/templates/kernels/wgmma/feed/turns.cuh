// Sums each stage by itself, as PromotedFeed does. The two warpgroups of a block begin their
// products in turn, so that one adds its sums while the tensor cores multiply for the other. Both
// read the same stages: without turns, a stage that is late makes them multiply, and then add, at
// the same time. With one accumulator set beside the total, a tile may have more columns than
// OverlappedFeed's; wider tiles read less shared memory for each product.
#pragma once

#include "wgmma/feed/dense.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

template <class Scales>
struct TurnsFeed : DenseLoads {
  const Consumer& consumer;
  uint32_t turns = 0;

  __device__ __forceinline__ explicit TurnsFeed(const Consumer& consumer) : consumer(consumer) {}

  // As OverlappedFeed's.
  template <class Tiles>
  static __device__ __forceinline__ void load_scales(const Params& params, const Shared& shared,
                                                     Tiles tiles, char*, int first, int step,
                                                     int block) {
    Scales::load_all(params, shared, tiles, first, step, block);
  }

  __device__ __forceinline__ void multiply_tile(const Shared& shared, const Place& at,
                                                const KRange& range, const Readers& readers,
                                                Ring& ring, Accumulators& sum) {
    const Scales scales(consumer, at, range.begin / kTileK);
    clear(sum);
#pragma unroll 1
    for (int left = range.tiles(); left > 0; --left) {
      wait_for_stage(shared, ring);
      const typename Scales::OfStage of_stage = scales.read(ring.stage);
#pragma unroll
      for (int i = 0; i < kGroupParts; ++i) {
        Sum part[kInstructionN / 2];
        wait_for(shared.turn(consumer.group), (turns++ ^ consumer.group ^ 1) & 1);
        products_begin();
        multiply_part(shared, ring.stage, consumer.first_part() + i, part);
        products_commit();
        products_wait<0>();
#pragma unroll
        for (Sum& value : part) pin(value);
        if (i == kGroupParts - 1) readers.release(ring.stage);
        scales.add(of_stage, part, i, sum);
      }
      ring.advance();
    }
  }

 private:
  // Multiplies the 64 rows of a part by the tile of B. The turn ends before the last product: the
  // other warpgroup needs some time to begin.
  __device__ __forceinline__ void multiply_part(const Shared& shared, int stage, int part,
                                                Sum (&sums)[kInstructionN / 2]) const {
    constexpr int kSteps = kRowBytes / kStepBytes;
    const uint64_t a = tile_descriptor<false>(shared.a(stage) + part * kPartRows * kRowBytes);
    const uint64_t b = tile_descriptor<false>(shared.b(stage, 0));
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step == kSteps - 1 && consumer.lane == 0)
        barrier_arrive_here(shared.turn(1 - consumer.group));
      multiply<false, false>(sums, moved_descriptor(a, step * kStepBytes / 16),
                             moved_descriptor(b, step * kStepBytes / 16), step > 0);
    }
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
