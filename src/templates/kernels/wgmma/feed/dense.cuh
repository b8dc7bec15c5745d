// Feeds for weights that lie in memory as the tensor cores take them: TMA loads tiles of B, or of B
// and B1, beside those of A.
#pragma once

#include "common/prefetch.cuh"
#include "wgmma/pipeline/consumer.cuh"
#include "wgmma/pipeline/producer.cuh"
#include "wgmma/products.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// The first accumulators of an instruction with fewer rows on wgmma's N side.
template <int ROWS>
__device__ __forceinline__ Sum (&accumulators_of(Sum (&all)[kInstructionN / 2]))[ROWS / 2] {
  return reinterpret_cast<Sum(&)[ROWS / 2]>(all);
}

// Multiplies this warpgroup's part of a stage, from `first_part` on, by the other side. FRESH:
// replaces `sum` instead of adding to it. ROWS: of A, from the tile's or the warpgroup's first on.
template <bool FRESH, int ROWS = kGroupRows>
__device__ __forceinline__ void multiply_stage(const Shared& shared, int stage, int first_part,
                                               Accumulators& sum) {
  // 64 rows of A or of B as (N, K) take as many bytes as a box of 64 columns of B as (K, N).
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
      for (int i = 0; i < kInstructions; ++i) {
        const uint32_t b = shared.b(stage, i % kSets) + own + b_at;
        multiply<!kBKMajor, false>(
            accumulators_of<ROWS>(sum.of_instruction[i]),
            tile_descriptor<!kBKMajor>(b + i / kSets * kPartRows * kRowBytes), a, add);
      }
    } else {
      const uint64_t b = tile_descriptor<!kBKMajor>(shared.b(stage, 0) + b_at);
#pragma unroll
      for (int part = 0; part < ROWS / kPartRows; ++part)
        multiply<false, !kBKMajor>(
            sum.of_instruction[part],
            tile_descriptor<false>(shared.a(stage) + own + part * kPartRows * kRowBytes + k), b,
            add);
    }
  }
}

// The functions that the loading thread calls, for all feeds of dense weights.
struct DenseLoads {
  static constexpr bool kEarly = false;

  static __device__ __forceinline__ void prefetch_maps(const Params& params) {
#pragma unroll
    for (int i = 0; i < kMaps; ++i) prefetch_map(&params.b[i]);
  }

  static __device__ __forceinline__ void begin_stage(const Load& load, bool) {
    barrier_expect(load.full, boxed_bytes(load));
  }

  static __device__ __forceinline__ void load_weights(const Load& load) {
    const int mask = ((1 << kClusterM) - 1) << (load.first_sharer + load.sharer_n * kClusterM);
    if constexpr (kBKMajor) {
#pragma unroll
      for (int s = 0; s < kSets; ++s) {
        if (kShareSets && s != load.sharer_m) continue;
#pragma unroll
        for (int i = 0; i < kLoadN; i += kPaired ? kPairRows : kLoadN) {
          const int row = kShareSets ? i : load.sharer_m * kLoadN + i;
          share_box<kClusterM>(load.shared.b_row(load.stage, s, row), &load.params.b[s], load.full,
                               load.k, load.at.n + row, matrix_of(load.at), mask);
        }
      }
    } else {
      // The blocks that share the tile load its boxes in turn.
      constexpr int kBoxColumns = (kTileN + kColumnBox - 1) / kColumnBox;  // of a set
#pragma unroll
      for (int i = 0; i < kSets * kBoxColumns; ++i) {
        if (i % kClusterM != load.sharer_m) continue;
        const int column =
            kAlternate ? 2 * load.at.n + i * kColumnBox : load.at.n + i % kBoxColumns * kColumnBox;
        share_box<kClusterM>(load.shared.b(load.stage, 0) + i * kColumnBoxBytes,
                             &load.params.b[kAlternate ? 0 : i / kBoxColumns], load.full, column,
                             load.k, matrix_of(load.at), mask);
      }
    }
  }
};

// The products of a stage are issued while those of the previous one run.
struct DenseFeed : DenseLoads {
  const Consumer& consumer;

  __device__ __forceinline__ explicit DenseFeed(const Consumer& consumer) : consumer(consumer) {}

  __device__ __forceinline__ void multiply_tile(const Shared& shared, const Place& at,
                                                const KRange& range, const Readers& readers,
                                                Ring& ring, Accumulators& sum) {
    const int k_tiles = range.tiles();
    clear(sum);
    multiply_rows<kGroupRows>(shared, rows_of(at), k_tiles, readers, ring, sum);
  }

 private:
  static constexpr int kLeastRows = kSwapped || kPingpong || kConsumers == 1 ? kRowStep : 0;

  __device__ __forceinline__ int rows_of(const Place& at) const {
    return end_of_rows(consumer.params, at) - at.m -
           (kSwapped ? 0 : consumer.first_part() * kPartRows);
  }

  // The instructions' sizes are part of the code: there is a loop for each number of rows.
  template <int ROWS>
  __device__ __forceinline__ void multiply_rows(const Shared& shared, int rows, int k_tiles,
                                                const Readers& readers, Ring& ring,
                                                Accumulators& sum) const {
    if constexpr (kGrouped && ROWS > kLeastRows) {
      if (rows <= ROWS - kRowStep)
        return multiply_rows<ROWS - kRowStep>(shared, rows, k_tiles, readers, ring, sum);
    }
    int before = -1;
#pragma unroll 1
    for (int k = 0; k < k_tiles; ++k) {
      wait_for_stage(shared, ring);
      products_begin();
      multiply_stage<false, ROWS>(shared, ring.stage, consumer.first_part(), sum);
      products_commit();
      products_wait<1>();
      if (before >= 0) readers.release(before);
      before = ring.stage;
      ring.advance();
    }
    if constexpr (kPingpong) give_turn(shared, consumer.group, consumer.block, readers.lane);
    products_wait<0>();
    pin_all(sum);
    if (before >= 0) readers.release(before);
  }
};

// Adds the sums of a stage as they are; BlockScales (feed/scales.cuh) and StagedScales
// (feed/staged_scales.cuh) times their scales.
struct NoScales {
  struct OfStage {};
  __device__ __forceinline__ NoScales(const Consumer&, const Place&, int) {}
  template <int ROWS>
  __device__ __forceinline__ void load() {}
  __device__ __forceinline__ OfStage read(int) const { return {}; }
  __device__ __forceinline__ void add(const OfStage&, const Sum (&part)[kInstructionN / 2], int i,
                                      Accumulators& sum) const {
#pragma unroll
    for (int j = 0; j < kInstructionN / 2; ++j) sum.of_instruction[i][j] += part[j];
  }
  template <int ROWS>
  __device__ __forceinline__ void add(const Accumulators& part, Accumulators& sum) const {
#pragma unroll
    for (int i = 0; i < kInstructions; ++i)
#pragma unroll
      for (int j = 0; j < values_of(ROWS); ++j)
        sum.of_instruction[i][j] += part.of_instruction[i][j];
  }
};

// Sums each stage by itself (Config::promote). Scales adds these sums to the total, while other
// warpgroups multiply.
template <class Scales>
struct PromotedFeed : DenseLoads {
  const Consumer& consumer;

  __device__ __forceinline__ explicit PromotedFeed(const Consumer& consumer) : consumer(consumer) {}

  __device__ __forceinline__ void multiply_tile(const Shared& shared, const Place& at,
                                                const KRange& range, const Readers& readers,
                                                Ring& ring, Accumulators& sum) {
    Scales scales(consumer, at, range.begin / kTileK);
    clear(sum);
    multiply_rows<kGroupRows>(shared, end_of_rows(consumer.params, at) - at.m, range.tiles(),
                              readers, ring, scales, sum);
  }

 private:
  // As DenseFeed's. Only fitted tiles have fewer rows.
  template <int ROWS>
  __device__ __forceinline__ void multiply_rows(const Shared& shared, int rows, int k_tiles,
                                                const Readers& readers, Ring& ring, Scales& scales,
                                                Accumulators& sum) const {
    if constexpr (kFitted && ROWS > kRowStep) {
      if (rows <= ROWS - kRowStep)
        return multiply_rows<ROWS - kRowStep>(shared, rows, k_tiles, readers, ring, scales, sum);
    }
#pragma unroll 1
    for (int k = 0; k < k_tiles; ++k) {
      scales.template load<ROWS>();
      wait_for_stage(shared, ring);
      Accumulators part;
      products_begin();
      multiply_stage<true, ROWS>(shared, ring.stage, consumer.group * kGroupParts, part);
      products_commit();
      products_wait<0>();
      pin_all<ROWS>(part);
      readers.release(ring.stage);
      ring.advance();
      scales.template add<ROWS>(part, sum);
    }
  }
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
