// Sums each stage by itself, as PromotedFeed does, in two accumulator sets in turn: one set is
// added to the total while the tensor cores multiply the next stage into the other. Both warpgroups
// of a block read the same stages, so with one set they would add at the same time and leave the
// tensor cores idle.
//
// LAG, from the row's DEFINES: the stages by which the second warpgroup follows the first one, so
// that one finishes a tile while the other multiplies; 0: none.
#pragma once

#include "wgmma/feed/dense.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

template <class Scales, int LAG_STAGES>
struct OverlappedFeed : DenseLoads {
  static_assert(LAG_STAGES == 0 || (kConsumers == 2 && LAG_STAGES < kStages));
  const Consumer& consumer;
  int lead = LAG_STAGES;  // stages until the second warpgroup may begin; 0: it has begun

  __device__ __forceinline__ explicit OverlappedFeed(const Consumer& consumer)
      : consumer(consumer) {}

  // Called by a warp of the loading warpgroup if kStagedScales.
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
    int left = range.tiles();  // stages whose products have not begun
    if (left == 0) return;
    Part even, odd;
    int ended = ring.stage;  // the first stage that has not been added
    const auto add = [&](Part& part) {
      pin_all(part.sums);
      readers.release(ended);
      if (++ended == kStages) ended = 0;
#pragma unroll
      for (int i = 0; i < kInstructions; ++i)
        scales.add(part.scales, part.sums.of_instruction[i], i, sum);
    };
    // Adds a stage while the next one is multiplied. ptxas serializes products if the last stage,
    // which has no next one, shares this code.
    const auto add_beside = [&](Part& part, Part& next) {
      begin(shared, ring, scales, next);
      products_wait<1>();
      add(part);
    };
    if (lead > 0 && consumer.group == 1) wait_for(shared.turn(1), 0);
    begin(shared, ring, scales, even);
#pragma unroll 1
    for (--left; left >= 2; left -= 2) {
      add_beside(even, odd);
      add_beside(odd, even);
      if (lead > 0 && (lead -= 2) <= 0) let_begin(shared, readers.lane);
    }
    if (lead > 0) let_begin(shared, readers.lane);
    if (left > 0) {
      add_beside(even, odd);
      products_wait<0>();
      add(odd);
    } else {
      products_wait<0>();
      add(even);
    }
  }

 private:
  struct Part {
    Accumulators sums;
    typename Scales::OfStage scales;
  };

  __device__ __forceinline__ void let_begin(const Shared& shared, int lane) {
    lead = 0;
    if (consumer.group == 0) give_turn(shared, 0, consumer.block, lane);
  }

  // Begins the products of the next stage.
  __device__ __forceinline__ void begin(const Shared& shared, Ring& ring, const Scales& scales,
                                        Part& part) const {
    wait_for_stage(shared, ring);
    part.scales = scales.read(ring.stage);
    products_begin();
    multiply_stage<true>(shared, ring.stage, consumer.first_part(), part.sums);
    products_commit();
    ring.advance();
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
