// What a stage of the wgmma kernel holds of weights in MXFP4 (ir/interpret/mxfp4.hpp): boxes of
// codes as they lie in memory, 32 bytes of a column, and beside the stages two scales of each
// column. Only wgmma/config.cuh includes this file.
#pragma once

#include "grouped/groups.cuh"
#include "packed/codes.cuh"

namespace attacca_wgmma {

struct Weights {
  static constexpr bool kInRegisters = true;
  static constexpr int kScaleBlock = 32;                     // weights that share a scale
  static constexpr int kColumnBytes = kTileK / 2;            // of a column's codes
  static constexpr int kStageBytes = kTileN * kColumnBytes;  // of a set
  static constexpr int kScaleBytes = 4;                      // of a column's two scales, as bf16
  static_assert(kSwapped && kBKMajor && kTileK == 2 * kScaleBlock);

  struct Params : Groups {
    const uint8_t* scales[kSets];
    int64_t column[kSets], matrix[kSets];  // steps of the scales along columns and groups
  };
};

}  // namespace attacca_wgmma
