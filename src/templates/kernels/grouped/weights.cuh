// What the wgmma kernel knows of B where each group of A's rows has a matrix of its own. Only
// wgmma/config.cuh includes this file.
#pragma once

namespace attacca_wgmma {

struct Weights {
  static constexpr bool kInRegisters = false;
  static constexpr int kStageBytes = kTileN * kRowBytes;  // of a set

  struct Params {
    const int32_t* ends;  // of the groups (ir/interpret/groups.hpp)
    int64_t stride;       // of `ends`
    int32_t groups;
  };
};

}  // namespace attacca_wgmma
