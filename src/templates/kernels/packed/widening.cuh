// Products of weights that each thread widens to A's type and gives to wgmma as its A, in
// registers. While the products of two steps of k run, the next two steps are widened.
#pragma once

#include "packed/products.cuh"
#include "packed/widen.cuh"
#include "wgmma/pipeline/consumer.cuh"
#include "wgmma/pipeline/producer.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

constexpr int kSteps = kRowBytes / kStepBytes;  // steps of a stage, 16 values of k each

// A thread's registers of wgmma's A in one step, for each of its parts and sets.
struct Fragments {
  uint32_t of[kInstructions][4];
};

// Each lane reads the stage by itself: it may be released only when all lanes have read it.
__device__ __forceinline__ void release_read(const Readers& readers, int stage) {
  __syncwarp();
  readers.release(stage);
}

// Loads: the functions that the loading thread calls. Widener is made from a Consumer:
//   fetch(stage)     a stage has arrived
//   widen(step, to)  the fragments of one of its steps
template <class Loads, class Widener>
struct WideningFeed : Loads {
  // Copies of members of the Consumer: with a reference to it, nvcc places address computations of
  // the loops here and in load_all() elsewhere.
  int group, block;
  Widener widener;

  __device__ __forceinline__ explicit WideningFeed(const Consumer& consumer)
      : group(consumer.group), block(consumer.block), widener(consumer) {}

  __device__ __forceinline__ void multiply_tile(const Shared& shared, const Place&,
                                                const KRange& range, const Readers& readers,
                                                Ring& ring, Accumulators& sum) {
    const int k_tiles = range.tiles();
    clear(sum);
    if (k_tiles == 0) {  // other blocks multiply all of K, or the rows are of no group
      if constexpr (kPingpong && kGrouped) give_turn(shared, group, block, readers.lane);
      return;
    }
    // Half of the steps are multiplied while the other half is widened.
    Fragments steps[kSteps];
    constexpr int kHalf = kSteps / 2;
    const auto widen_half = [&](int half) {
#pragma unroll
      for (int i = 0; i < kHalf; ++i) widener.widen(half * kHalf + i, steps[half * kHalf + i]);
    };
    wait_for_stage(shared, ring);
    widener.fetch(ring.stage);
    widen_half(0);
    const uint64_t rows = tile_descriptor<false>(shared.a(0));
    int before = -1;
#pragma unroll 1
    for (int k = 0; k < k_tiles; ++k) {
      const int stage = ring.stage;
      ring.advance();
      const bool more = k + 1 < k_tiles;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        products_begin();
#pragma unroll
        for (int step = half * kHalf; step < (half + 1) * kHalf; ++step) {
          const uint64_t b =
              moved_descriptor(rows, stage * (kStageBytes / 16) + step * (kStepBytes / 16));
#pragma unroll
          for (int i = 0; i < kInstructions; ++i)
            multiply(sum.of_instruction[i], steps[step].of[i], b);
        }
        products_commit();
        if (half == 1 && more) {
          wait_for_stage(shared, ring);
          widener.fetch(ring.stage);
        }
        // Wait for all products but those of this half.
        products_wait<1>();
        if (half == 0 && before >= 0) release_read(readers, before);
        if (half == 0 || more) widen_half(1 - half);
      }
      before = stage;
    }
    if constexpr (kPingpong) give_turn(shared, group, block, readers.lane);
    products_wait<0>();
    pin_all(sum);
    release_read(readers, before);
    if constexpr (kElementBytes == 2) {
#pragma unroll
      for (auto& part : sum.of_instruction)
#pragma unroll
        for (int i = 0; i < kInstructionN / 2; ++i)
          part[i] *= attacca_packed_weights::rows_up(i % 4 >= 2);
    }
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
