// What a stage of the wgmma kernel holds of weights of bytes: boxes of 64 columns by 64 values of
// k, as they lie in memory. Only wgmma/config.cuh includes this file.
#pragma once

namespace attacca_wgmma {

struct Weights {
  static constexpr bool kInRegisters = true;
  static constexpr int kBox = 64, kBoxBytes = kBox * kBox, kBoxes = kTileN / kBox;
  static constexpr int kStageBytes = kBoxes * kBoxBytes;
  static_assert(kTileK == kBox && kTileN % kBox == 0);

  struct Params {
    uint32_t flip;  // s8: 0x80808080, which makes unsigned bytes, 128 larger; u8: 0
  };
};

}  // namespace attacca_wgmma
