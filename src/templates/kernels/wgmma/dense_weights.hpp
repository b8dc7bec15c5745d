// The host side of weights that lie in memory as the tensor cores take them, for builders of wgmma
// templates.
#pragma once

#include "host/tensor_map.hpp"
#include "wgmma/layout.cuh"

namespace {

using namespace attacca_wgmma;

// The matrix that map `set` describes. Alternate columns are one matrix with both weights.
inline Factor factor_of(const attacca_gemm_arguments& g, int set) {
  Factor factor = factor_b(g, set, kBKMajor, kElementBytes);
  if (kGrouped) factor.batch = {"group", g.groups, factor.batch.stride};
  return kAlternate ? both_columns(factor, g) : factor;
}

inline int check_matrices(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
  if (kAlternate && check_alternate(g, kGrouped ? g.groups : g.batch, reason, bytes)) return 1;
  for (int s = 0; s < kMaps; ++s)
    if (check_factor(factor_of(g, s), Steps::Tma, reason, bytes)) return 1;
  return 0;
}

// Checks the scales of blocks, which only a SCALED template takes.
inline int check_scales(const attacca_gemm_arguments& g, char* reason, size_t bytes) {
  const struct {
    const char* name;
    const void* pointer;
  } scales[] = {{"the scales of A", g.scale_a.pointer},
                {"the scales of B", g.scale_b.pointer},
                {"the scales of B1", g.scale_b1.pointer}};
  for (const auto& [name, pointer] : scales) {
    if (pointer && !kScaled) return refuse(reason, bytes, "the template takes no scales of blocks");
    if (check_address(name, pointer, sizeof(float), reason, bytes)) return 1;
  }
  return 0;
}

// Gives the kernel the scales of A's blocks, and of B's for each accumulator set.
template <class Scales>
void fill_scales(const attacca_gemm_arguments& g, Scales& all) {
  all.scale_a = g.scale_a;
  for (int set = 0; set < kScaledSets; ++set) all.scale_b[set] = set == 0 ? g.scale_b : g.scale_b1;
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
