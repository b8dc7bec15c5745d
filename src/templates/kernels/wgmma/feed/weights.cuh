// Weights that are not packed: a stage holds tiles of B.
#pragma once

#include "abi.h"

namespace attacca_wgmma {

struct Weights {
  static constexpr bool kInRegisters = false;
  static constexpr int kStageBytes = kTileN * kRowBytes;  // of a set

  // Scaled: one scale for each 128 values of k of a row of A, and for each 128 x 128 of B.
  struct Params {
    attacca_operand scale_a, scale_b[kScaledSets];
  };
};

}  // namespace attacca_wgmma
