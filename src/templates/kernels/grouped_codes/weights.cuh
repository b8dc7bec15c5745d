// What a stage of the wgmma kernel holds of weights in codes: boxes of codes as they lie in memory,
// 64 values of k of a column, and beside the stages an entry for each column, with what two blocks
// of 32 values of k are scaled by. Only wgmma/config.cuh includes this file.
#pragma once

#include "grouped/groups.cuh"
#include "packed/codes.cuh"

namespace attacca_wgmma {

struct Weights {
  static constexpr bool kInRegisters = true;
  static constexpr int kCodeBits = attacca_packed_weights::kCodeBits;
  static constexpr int kScaleBlock = 32;                       // the fewest weights with a scale
  static constexpr int kColumnBytes = kTileK * kCodeBits / 8;  // of a column's codes
  static constexpr int kStageBytes = kTileN * kColumnBytes;    // of a set
  static_assert(kSwapped && kBKMajor && kTileK == 2 * kScaleBlock);

  struct Params : attacca_groups::Groups {
    const void* scales[kSets];             // of the first weights of B and of B1
    int64_t column[kSets], matrix[kSets];  // from a column's scales to the next one's
#if !CODE_FLOATS
    const uint8_t* zeros[kSets];  // null: each code of 0 is `zero`
    int32_t zero;
    int32_t shift;  // a block of 32 values of k, shifted by this, is the number of its scale
    uint32_t flip;  // what makes signed codes unsigned
#endif
  };
};

}  // namespace attacca_wgmma
