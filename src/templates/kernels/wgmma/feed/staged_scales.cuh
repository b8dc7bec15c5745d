// Scales of blocks, as feed/scales.cuh describes them, that a warp of the loading warpgroup copies
// to shared memory with each stage. Loads by the threads that multiply would be late whenever a
// scale is not in the L1 cache, which is every 8th tile of k.
#pragma once

#include "wgmma/pipeline/consumer.cuh"
#include "wgmma/pipeline/producer.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

class StagedScales {
 public:
  // The scales of a thread's rows, and of the blocks of the tile's columns in each set.
  struct OfStage {
    float rows[2 * kGroupParts], columns[kSets * kColumnBlocks];
  };

  __device__ __forceinline__ StagedScales(const Consumer& consumer, const Place& at, int)
      : columns_(reinterpret_cast<const float*>(consumer.memory + kScalesAt) + kTileM),
        rows_(columns_ - kTileM + consumer.first_row + consumer.lane / 4),
        first_(at.n % kScaleBlock) {}

  __device__ __forceinline__ OfStage read(int stage) const {
    const int at = stage * (kStageScaleBytes / 4);
    OfStage of;
#pragma unroll
    for (int i = 0; i < 2 * kGroupParts; ++i)
      of.rows[i] = rows_[at + i / 2 * kPartRows + i % 2 * 8];
#pragma unroll
    for (int i = 0; i < kSets * kColumnBlocks; ++i) of.columns[i] = columns_[at + i];
    return of;
  }

  // Adds the sums of one tile of k of instruction i, times their scales.
  __device__ __forceinline__ void add(const OfStage& of, const Sum (&part)[kInstructionN / 2],
                                      int i, Accumulators& sum) const {
#pragma unroll
    for (int piece = 0; piece < kInstructionN / kPieceN; ++piece) {
      // A piece's block depends on where the tile begins in its first block.
      constexpr int kValues = kPieceN / 2, kSetPieces = kTileN / kPieceN;
      const int at = piece % kSetPieces * kPieceN, begin = at % kScaleBlock;
      const int low = piece / kSetPieces * kColumnBlocks + at / kScaleBlock;
      float column = of.columns[low];
      if (begin > 0 && kTileN > kPieceN && first_ + begin >= kScaleBlock)
        column = of.columns[low + 1];
      const float both[] = {of.rows[i * 2] * column, of.rows[i * 2 + 1] * column};
#pragma unroll
      for (int j = piece * kValues; j < (piece + 1) * kValues; ++j)
        sum.of_instruction[i][j] = fmaf(part[j], both[j / 2 % 2], sum.of_instruction[i][j]);
    }
  }

  // Copies the scales of all stages of this block's tiles.
  template <class Tiles>
  static __device__ __forceinline__ void load_all(const Params& params, const Shared& shared,
                                                  Tiles tiles, int first, int step, int block) {
    constexpr int kLanes = 32;
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    constexpr int kBlocks = kSets * kColumnBlocks;  // whose scales a lane each copies
    static_assert(kBlocks <= kLanes && kSets <= 2);
    const attacca_operand& a = params.weights.scale_a;
    const attacca_operand& b = params.weights.scale_b[lane < kColumnBlocks ? 0 : kSets - 1];
    Schedule schedule(tiles.count(), first, step, block);
    Work work;
    Ring ring;
#pragma unroll 1
    while (schedule.take(work)) {
      const Place at = tiles.place(work);
      const KRange range = k_range(tiles.k(at), split_of(block), work.shared);
      const int row = at.m + lane, column = at.n / kScaleBlock + lane % kColumnBlocks;
      const int k = range.begin / kTileK;
      const float* of_row = static_cast<const float*>(a.pointer) + at.batch * a.batch_stride +
                            row * a.row_stride + k * a.column_stride;
      const float* of_column = static_cast<const float*>(b.pointer) +
                               matrix_of(at) * b.batch_stride + column * b.column_stride +
                               k * b.row_stride;
#pragma unroll 1
      for (int left = range.tiles(); left > 0; --left) {
        wait_for(shared.empty(ring.stage), (ring.round & 1) ^ 1);
        const uint32_t to = shared.scales(ring.stage) + lane * 4;
#pragma unroll
        for (int i = 0; i < kTileM; i += kLanes)
          copy_word(to + i * 4, of_row + i * a.row_stride, row + i < params.m);
        if (lane < kBlocks) copy_word(to + kTileM * 4, of_column, column * kScaleBlock < params.n);
        arrive_after_words(shared.full(ring.stage));
        of_row += a.column_stride;
        of_column += b.row_stride;
        ring.advance();
      }
    }
  }

 private:
  const float *columns_, *rows_;
  int first_;  // the place of the tile's first column in its block
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
