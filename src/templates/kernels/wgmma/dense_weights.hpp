// The host side of weights that lie in memory as the tensor cores take them, for builders of wgmma
// templates.
#pragma once

#include <algorithm>

#include "host/tensor_map.hpp"
#include "wgmma/layout.cuh"

namespace {

using namespace attacca_wgmma;

// The matrix that map `set` describes. Alternate columns are one matrix with both weights.
inline Factor factor_of(const attacca_gemm_arguments& g, int set) {
  Factor factor = factor_b(g, set, kBKMajor, kElementBytes);
  if (kGrouped) factor.batch = {"group", g.groups, factor.batch.stride};
  if (kAlternate) {
    factor.pointer = std::min(g.b.pointer, g.b1.pointer);
    factor.inner = {"n", 2 * int64_t{g.n}, 1};
  }
  return factor;
}

// Checks that B and B1 are alternate columns of one matrix, as an ALTERNATE template requires.
inline int check_alternate(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
  const auto* b = static_cast<const uint16_t*>(g.b.pointer);
  const auto* b1 = static_cast<const uint16_t*>(g.b1.pointer);
  const bool neighbours = (!b && !b1) || b1 == b + 1 || b == b1 + 1;
  const bool alike =
      (g.k <= 1 || g.b.row_stride == g.b1.row_stride) &&
      ((kGrouped ? g.groups : g.batch) <= 1 || g.b.batch_stride == g.b1.batch_stride);
  const bool alternate = g.n <= 1 || (g.b.column_stride == 2 && g.b1.column_stride == 2);
  if (neighbours && alike && alternate) return 0;
  return refuse(reason, bytes, "B and B1 must be alternate columns of one matrix");
}

inline int check_matrices(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
  if (kAlternate && check_alternate(g, reason, bytes)) return 1;
  for (int s = 0; s < kMaps; ++s)
    if (check_factor(factor_of(g, s), Steps::Tma, reason, bytes)) return 1;
  return 0;
}

// Makes the tensor maps of B.
inline int fill_matrices(const attacca_gemm_arguments& g, Params& all, char* reason, size_t bytes) {
  all.odd_first = kAlternate && g.b.pointer > g.b1.pointer;
  for (int s = 0; s < kMaps; ++s)
    if (encode_map(factor_of(g, s), kBKMajor ? kTileK : kColumnBox,
                   kBKMajor ? (kPaired ? kPairRows : kLoadN) : kTileK, &all.b[s], reason, bytes))
      return 1;
  return 0;
}

}  // namespace
