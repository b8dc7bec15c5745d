// Weights as the tensor cores multiply them, in B's place of a stage.
#pragma once

#include "abi.h"

namespace attacca_wgmma {

struct Weights {
  static constexpr bool kPacked = false;
  static constexpr int kStageBytes = kTileN * kRowBytes;  // of a set

  struct Params {
    attacca_operand scale_a,
        scale_b;  // scaled: one for each 128 values of k, of a row and of 128 columns
  };
};

}  // namespace attacca_wgmma
