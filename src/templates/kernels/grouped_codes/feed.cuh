// The feed for weights in codes as they lie in memory, as (N, K). TMA copies boxes of the codes of
// 64 values of k of each column; a warp of the loading warpgroup copies the scales of each column
// and makes entries of them. A thread reads its part of wgmma's register operand, pairs of codes,
// and widens them as its format says: MxFp4, Integers.
//
// Rows of a box have 32 or 64 bytes. TMA exchanges their 16-byte pieces: piece p of row r lies at
// place p ^ (r / 4 % 2) or p ^ (r / 2 % 4), so that eight rows lie in different banks.
#pragma once

#include <type_traits>

#include "common/prefetch.cuh"
#include "packed/widening.cuh"
#if CODE_FLOATS
#include "grouped_codes/mxfp4.cuh"
#else
#include "grouped_codes/integers.cuh"
#endif

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

#if CODE_FLOATS
using Format = MxFp4;
#else
using Format = Integers;
#endif
static_assert(sizeof(Format::Entry) == kEntryBytes && kScalesAt % kEntryBytes == 0);

// Reads a thread's codes and scales of a stage and widens them.
struct CodesWidener {
  static constexpr int kStepCodes = 16 * Weights::kCodeBits / 8;  // bytes of a column
  using Pair = std::conditional_t<Weights::kCodeBits == 4, uint8_t, uint16_t>;

  Format format;
  const char* memory;
  int own;          // this thread's first pair in a stage
  int own_entries;  // those of its first column
  int stage_at = 0;
  // Of a part and set, for each 32 values of k: of columns lane / 4 and lane / 4 + 8.
  Format::Factors factors[kInstructions][2][2];

  __device__ __forceinline__ explicit CodesWidener(const Consumer& consumer)
      : format(consumer.params.weights), memory(consumer.memory) {
    constexpr int kBytes = Weights::kColumnBytes;
    const int row = consumer.warp % 4 * 16 + consumer.lane / 4;
    const int moved = row / (128 / kBytes) % (kBytes / 16);
    own = kABytes + consumer.first_part() * kPartRows * kBytes + row * kBytes + moved * 16 +
          consumer.lane % 4 * static_cast<int>(sizeof(Pair));
    own_entries = kScalesAt + (consumer.first_part() * kPartRows + row) * kEntryBytes;
  }

  // The instruction's first column of a stage.
  static __device__ __forceinline__ int column_of(int i) {
    return i % kSets * kTileN + i / kSets * kPartRows;
  }

  __device__ __forceinline__ void fetch(int stage) {
    stage_at = own + stage * kStageBytes;
    const char* const from = memory + own_entries + stage * kStageScaleBytes;
#pragma unroll
    for (int i = 0; i < kInstructions; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto entry =
            *reinterpret_cast<const Format::Entry*>(from + (column_of(i) + half * 8) * kEntryBytes);
        factors[i][0][half] = Format::factors(entry, 0);
        factors[i][1][half] = Format::factors(entry, 1);
      }
  }

  // REQUIRES: no product reads `to` any more.
  __device__ __forceinline__ void widen(int step, Fragments& to) const {
    // Rows 8 apart have their pieces at the same places.
    const char* const from =
        memory + (stage_at ^ (step * kStepCodes / 16 * 16)) + step * kStepCodes % 16;
#pragma unroll
    for (int i = 0; i < kInstructions; ++i)
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const uint32_t codes = *reinterpret_cast<const Pair*>(
            from + (column_of(i) + part % 2 * 8) * Weights::kColumnBytes +
            part / 2 * (kStepCodes / 2));
        to.of[i][part] = format.widen(codes, factors[i][step / 2][part % 2]);
        pin(to.of[i][part]);
      }
  }
};

struct CodesLoads {
  // Weights may be the result of the preceding kernel.
  static constexpr bool kEarly = false;

  static __device__ __forceinline__ void prefetch_maps(const Params& params) {
#pragma unroll
    for (int s = 0; s < kSets; ++s) prefetch_map(&params.b[s]);
  }

  static __device__ __forceinline__ void begin_stage(const Load& load, bool) {
    barrier_expect(load.full, kBoxedBytes);
  }

  static __device__ __forceinline__ void load_weights(const Load& load) {
#pragma unroll
    for (int s = 0; s < kSets; ++s)
      copy_box(load.shared.b(load.stage, s), &load.params.b[s], load.full,
               load.k * Weights::kCodeBits / 8, load.at.n, matrix_of(load.at));
  }

  // The scales of all stages of this block's tiles, by a warp. They are read some stages before
  // they are written, so that it does not wait for memory in each of them.
  template <class Tiles>
  static __device__ __forceinline__ void load_scales(const Params& params, const Shared& shared,
                                                     Tiles tiles, char* memory, int first, int step,
                                                     int block) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Schedule schedule(tiles.count(), first, step, block);
    Work work;
    Ring ring;
#pragma unroll 1
    while (schedule.take(work)) {
      const Place at = tiles.place(work);
      const int blocks = (tiles.k(at) + Weights::kScaleBlock - 1) / Weights::kScaleBlock;
      if (blocks == 0) continue;
      OwnScales from;
      from.columns = params.n - at.n - lane;
#pragma unroll
      for (int s = 0; s < kSets; ++s) {
        from.step[s] = params.weights.column[s];
        from.first[s] =
            Format::first(params.weights, s,
                          matrix_of(at) * params.weights.matrix[s] + (at.n + lane) * from.step[s]);
        pin(from.first[s]);  // else nvcc multiplies again for every scale
      }
      StageScales ahead[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) read_scales(params.weights, from, 2 * i, blocks, ahead[i]);
#pragma unroll 1
      for (int next = 0; next < blocks; next += 2 * kAhead) {
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
          const int own = next + 2 * i;
          if (own >= blocks) break;
          StageScales& now = ahead[i];
          StageScales after;
          if (Format::kReadsEarly)
            read_scales(params.weights, from, own + 2 * kAhead, blocks, after);
          wait_for(shared.empty(ring.stage), (ring.round & 1) ^ 1);
          auto* const to =
              reinterpret_cast<Format::Entry*>(memory + kScalesAt + ring.stage * kStageScaleBytes);
#pragma unroll
          for (int j = 0; j < kOwn; ++j) to[lane + j * 32] = Format::entry(now.of[j]);
          barrier_arrive(shared.full(ring.stage));
          if (!Format::kReadsEarly)
            read_scales(params.weights, from, own + 2 * kAhead, blocks, after);
          now = after;
          ring.advance();
        }
      }
    }
  }

 private:
  static constexpr int kOwn = kSets * kTileN / 32;  // columns of which a lane copies the scales
  static constexpr int kAhead = kOwn <= 2 ? 4 : 8 / kOwn;  // stages

  // Where a lane's scales of a tile lie: of its first column, and of every 32nd one from there.
  struct OwnScales {
    Format::First first[kSets];
    int64_t step[kSets];  // from column to column
    int columns;          // from the lane's first one to the last one of the problem
  };
  struct StageScales {
    Format::Raw of[kOwn][2];
  };

  static __device__ __forceinline__ void read_scales(const Weights::Params& weights,
                                                     const OwnScales& from, int block, int blocks,
                                                     StageScales& to) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int set = i * 32 / kTileN, column = i * 32 % kTileN;
#pragma unroll
      for (int j = 0; j < 2; ++j)
        to.of[i][j] =
            column < from.columns && block + j < blocks
                ? Format::read(weights, set, from.first[set], column * from.step[set], block + j)
                : Format::none(weights);
    }
  }
};

using CodesFeed = WideningFeed<CodesLoads, CodesWidener>;

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
