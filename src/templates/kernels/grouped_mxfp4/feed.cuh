// The feed for weights in MXFP4 (ir/interpret/mxfp4.hpp) as they lie in memory, as (N, K). TMA
// copies boxes of 32 bytes, the codes of 64 values of k, of each column; a warp of the loading
// warpgroup copies two scales of each column and makes them bf16. A thread reads its part of
// wgmma's register operand, pairs of codes, widens them and multiplies them by their scale.
//
// The bits of a code, its sign at the place of a bf16's sign and the others at the lowest bits of
// the exponent and the highest one of the fraction, are the code's value * 2^-126, subnormal or
// not. Both multiplications, by 2^126 and by the scale, are exact, unless the weight itself
// overflows.
//
// Rows of a box have 32 bytes. TMA exchanges their 16-byte pieces: piece p of row r lies at place
// p ^ (r / 4 % 2), so that eight rows lie in different banks.
#pragma once

#include "common/prefetch.cuh"
#include "packed/widening.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// Two codes, of which the first one is in the lower half of a byte, as bf16.
__device__ __forceinline__ uint32_t widen_mxfp4(uint32_t byte) {
  using attacca_packed_weights::both;
  const uint32_t codes = byte * 0x1001 & both(0x000f);  // one in each half
  const uint32_t placed = codes * 0x1040 & both(0x81c0);
  return attacca_packed_weights::multiply_add_pair(placed, both(0x7e80), both(0x8000));  // 2^126
}

// A scale as bf16, which is subnormal for 0.
__device__ __forceinline__ uint32_t mxfp4_scale(uint32_t scale) {
  return scale == 255 ? 0x7fff : max(scale << 7, 0x40u);
}

// Reads a thread's codes and scales of a stage and widens them.
struct MxFp4Widener {
  const char* memory;
  int own;         // this thread's first byte in a stage
  int own_scales;  // those of its first column
  int stage_at = 0;
  // Of a part and set, for each 32 values of k: of columns lane / 4 and lane / 4 + 8, twice.
  uint32_t scales[kInstructions][2][2];

  __device__ __forceinline__ explicit MxFp4Widener(const Consumer& consumer)
      : memory(consumer.memory) {
    const int row = consumer.warp % 4 * 16 + consumer.lane / 4;
    own = kABytes + consumer.first_part() * kPartRows * Weights::kColumnBytes +
          row * Weights::kColumnBytes + row / 4 % 2 * 16 + consumer.lane % 4;
    own_scales = kScalesAt + (consumer.first_part() * kPartRows + row) * Weights::kScaleBytes;
  }

  // The instruction's first column of a stage.
  static __device__ __forceinline__ int column_of(int i) {
    return i % kSets * kTileN + i / kSets * kPartRows;
  }

  __device__ __forceinline__ void fetch(int stage) {
    stage_at = own + stage * kStageBytes;
    const char* const from = memory + own_scales + stage * kStageScaleBytes;
#pragma unroll
    for (int i = 0; i < kInstructions; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t two = *reinterpret_cast<const uint32_t*>(from + (column_of(i) + half * 8) *
                                                                           Weights::kScaleBytes);
        scales[i][0][half] = choose_bytes(two, 0, 0x1010);
        scales[i][1][half] = choose_bytes(two, 0, 0x3232);
      }
  }

  // REQUIRES: no product reads `to` any more.
  __device__ __forceinline__ void widen(int step, Fragments& to) const {
    // A step's 16 values of k are 8 bytes. Rows 8 apart have their pieces at the same places.
    const char* const from = memory + (stage_at ^ (step / 2 * 16)) + step % 2 * 8;
#pragma unroll
    for (int i = 0; i < kInstructions; ++i)
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        const uint32_t byte = *reinterpret_cast<const uint8_t*>(
            from + (column_of(i) + part % 2 * 8) * Weights::kColumnBytes + part / 2 * 4);
        to.of[i][part] = attacca_packed_weights::multiply_add_pair(
            widen_mxfp4(byte), scales[i][step / 2][part % 2], attacca_packed_weights::both(0x8000));
        pin(to.of[i][part]);
      }
  }
};

struct MxFp4Loads {
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
      copy_box(load.shared.b(load.stage, s), &load.params.b[s], load.full, load.k / 2, load.at.n,
               matrix_of(load.at));
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
        from.first[s] = params.weights.scales[s] + matrix_of(at) * params.weights.matrix[s] +
                        (at.n + lane) * from.step[s];
      }
      StageScales ahead[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) read_scales(from, 2 * i, blocks, ahead[i]);
#pragma unroll 1
      for (int next = 0; next < blocks; next += 2 * kAhead) {
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
          const int own = next + 2 * i;
          if (own >= blocks) break;
          const StageScales now = ahead[i];
          read_scales(from, own + 2 * kAhead, blocks, ahead[i]);
          wait_for(shared.empty(ring.stage), (ring.round & 1) ^ 1);
          auto* const to =
              reinterpret_cast<uint32_t*>(memory + kScalesAt + ring.stage * kStageScaleBytes);
#pragma unroll
          for (int j = 0; j < kOwn; ++j)
            to[lane + j * 32] = mxfp4_scale(now.of[j][0]) | mxfp4_scale(now.of[j][1]) << 16;
          barrier_arrive(shared.full(ring.stage));
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
    const uint8_t* first[kSets];
    int64_t step[kSets];  // from column to column
    int columns;          // from the lane's first one to the last one of the problem
  };
  struct StageScales {
    uint8_t of[kOwn][2];
  };

  static __device__ __forceinline__ void read_scales(const OwnScales& from, int block, int blocks,
                                                     StageScales& to) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int set = i * 32 / kTileN, column = i * 32 % kTileN;
#pragma unroll
      for (int j = 0; j < 2; ++j)
        to.of[i][j] = column < from.columns && block + j < blocks
                          ? __ldg(from.first[set] + column * from.step[set] + block + j)
                          : 0;
    }
  }
};

using MxFp4Feed = WideningFeed<MxFp4Loads, MxFp4Widener>;

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
