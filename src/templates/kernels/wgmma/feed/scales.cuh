// Scales of blocks, as in DeepSeek-V3 (Technical Report, 3.3): one for each 128 values of k of a
// row of A, and one for each 128 x 128 values of B. A tile's 128 values of k lie in one block of
// each, so the sums of their products are multiplied by both scales. Each group's matrix has scales
// of its own. A tile's rows behind the end of its group are multiplied by those of their own rows.
#pragma once

#include "wgmma/pipeline/consumer.cuh"

#ifdef ATTACCA_DEVICE_CODE

namespace attacca_wgmma {

// How many of A's rows a thread has accumulators of, if so many are multiplied.
constexpr int row_scales(int rows) {
  return kSwapped ? rows / 4 : 2 * kGroupParts;
}

// The scales of a thread's accumulators at one tile of k.
class BlockScales {
 public:
  // `k_tile`: the first tile of k.
  __device__ __forceinline__ BlockScales(const Consumer& consumer, const Place& at, int k_tile)
      : params_(consumer.params),
        row_(kSwapped ? at.m + consumer.lane % 4 * 2
                      : at.m + consumer.first_row + consumer.lane / 4),
        column_(kSwapped ? at.n + consumer.first_row : at.n),
        a_(pointer(params_.weights.scale_a, at.batch) +
           k_tile * params_.weights.scale_a.column_stride) {
#pragma unroll
    for (int set = 0; set < kSets; ++set)
      b_[set] = pointer(params_.weights.scale_b[set], matrix_of(at)) +
                k_tile * params_.weights.scale_b[set].row_stride;
  }

  // Loads the scales of the next tile of k. ROWS: of A that are multiplied.
  template <int ROWS>
  __device__ __forceinline__ void load() {
#pragma unroll
    for (int i = 0; i < row_scales(ROWS); ++i) {
      const int row = row_ + (kSwapped ? i / 2 * 8 + i % 2 : i / 2 * kPartRows + i % 2 * 8);
      of_rows_[i] = row < params_.m ? __ldg(a_ + row * params_.weights.scale_a.row_stride) : 0;
    }
#pragma unroll
    for (int set = 0; set < kSets; ++set) {
      const attacca_operand& b = params_.weights.scale_b[set];
#pragma unroll
      for (int i = 0; i < kColumnScales; ++i) {
        const int column = column_ + i * kBlock;
        of_columns_[set][i] =
            column < params_.n ? __ldg(b_[set] + column / kBlock * b.column_stride) : 0;
      }
      b_[set] += b.row_stride;
    }
    a_ += params_.weights.scale_a.column_stride;
  }

  // Adds the sums of one tile of k, times their scales.
  template <int ROWS>
  __device__ __forceinline__ void add(const Accumulators& part, Accumulators& sum) const {
    float both[kSets][kRowScales][kColumnScales];
#pragma unroll
    for (int set = 0; set < kSets; ++set)
#pragma unroll
      for (int i = 0; i < row_scales(ROWS); ++i)
#pragma unroll
        for (int j = 0; j < kColumnScales; ++j) both[set][i][j] = of_rows_[i] * of_columns_[set][j];
#pragma unroll
    for (int i = 0; i < kInstructions; ++i)
#pragma unroll
      for (int j = 0; j < values_of(ROWS); ++j) {
        const int set = kSwapped ? i % kSets : j / kSetValues;
        const int row = kSwapped ? j / 4 * 2 + j % 2 : i * 2 + j / 2 % 2;
        const int column = kSwapped ? 0 : j % kSetValues / 4 * 8 / kBlock;
        sum.of_instruction[i][j] =
            fmaf(part.of_instruction[i][j], both[set][row][column], sum.of_instruction[i][j]);
      }
  }

 private:
  static constexpr int kBlock = 128;
  static constexpr int kRowScales = row_scales(kTileM);
  static constexpr int kColumnScales = kSwapped || kTileN < kBlock ? 1 : kTileN / kBlock;
  static_assert(!kScaled || (kBlock == kTileK && !kPaired));
  static_assert(!kScaled || kStagedScales || kTileN % kBlock == 0 || kBlock % kTileN == 0);

  static __device__ __forceinline__ const float* pointer(const attacca_operand& scale, int batch) {
    return static_cast<const float*>(scale.pointer) + batch * scale.batch_stride;
  }

  const Params& params_;
  int row_, column_;
  const float *a_, *b_[kSets];
  float of_rows_[kRowScales], of_columns_[kSets][kColumnScales];
};

}  // namespace attacca_wgmma

#endif  // ATTACCA_DEVICE_CODE
