// What the wgmma kernel knows of B where each group of A's rows has a matrix of its own. Only
// wgmma/config.cuh includes this file.
#pragma once

#include "abi.h"

namespace attacca_wgmma {

#ifdef GATHERED
// The matrix whose rows the index names. Rows begin `pieces` times 16 bytes apart.
struct NamedRows {
  const void* matrix;
  int64_t pieces;
  attacca_row_index index;
};
#endif

struct Weights {
  static constexpr bool kInRegisters = false;
  static constexpr int kStageBytes = kTileN * kRowBytes;  // of a set

  struct Params {
    const int32_t* ends;  // of the groups (ir/interpret/groups.hpp)
    int64_t stride;       // of `ends`
    int32_t groups;
#ifdef GATHERED
    NamedRows rows;
#endif
  };
};

}  // namespace attacca_wgmma
