// What a stage of the wgmma kernel holds of packed weights: blocks of codes, then their scales,
// then their zero points. Only wgmma/config.cuh includes this file.
#pragma once

#include "packed/codes.cuh"

namespace attacca_wgmma {

struct Weights {
  static constexpr bool kInRegisters = true;
  static constexpr int kBlocksN = kTileN / attacca_packed_weights::kBlock;
  static constexpr int kBlocksK = kTileK / attacca_packed_weights::kBlock;
  static constexpr int kBlockScaleBytes =
      attacca_packed_weights::kBlock * attacca_packed_weights::kScaleBytes;
  static constexpr int kScalesAt = kBlocksN * kBlocksK * attacca_packed_weights::kBlockBytes;
  static constexpr int kZerosAt = kScalesAt + kBlocksN * kBlockScaleBytes;
  static constexpr int kUsedBytes = kZerosAt + kBlocksN * attacca_packed_weights::kBlock;
  static constexpr int kStageBytes = (kUsedBytes + 1023) / 1024 * 1024;
  static_assert(kBlocksK == (attacca_packed_weights::kScaleBits == 8 ? 2 : 1));

  using Params = attacca_packed_weights::Weights;
};

}  // namespace attacca_wgmma
