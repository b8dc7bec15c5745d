// What the wgmma kernel knows of B where each group of A's rows has a matrix of its own. Only
// wgmma/config.cuh includes this file.
#pragma once

#include "grouped/groups.cuh"

namespace attacca_wgmma {

struct Weights {
  static constexpr bool kInRegisters = false;
  static constexpr int kStageBytes = kTileN * kRowBytes;  // of a set

#if SCALED
  // As those of wgmma/feed/weights.cuh. A batch of B's is a group.
  struct Params : attacca_groups::Groups {
    attacca_operand scale_a, scale_b[kScaledSets];
  };
#else
  using Params = attacca_groups::Groups;
#endif
};

}  // namespace attacca_wgmma
