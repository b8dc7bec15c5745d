// Shared by the builders of wgmma templates. WeightsHost is the host side of the row's Weights:
//   describe(info)                    adds the weights' metadata
//   check(g, reason, bytes)           0 if the kernel takes B, else 1 and the reason
//   fill(g, params, reason, bytes)    sets B's members of the kernel's parameters; returns as check
#pragma once

#include <algorithm>
#include <cstring>

#include "host/groups.hpp"
#include "host/tensor_map.hpp"
#include "wgmma/layout.cuh"

namespace {

using namespace attacca_wgmma;

constexpr int kDefaultGroup = 8;

inline Factor factor_d(const attacca_gemm_arguments& g) {
  return factor_mn("D", g.result[0], kResultBytes, g);
}
inline Factor factor_full(const attacca_gemm_arguments& g, int slot) {
  return factor_mn(slot == 0 ? "full operand 0" : "full operand 1", g.full[slot], kResultBytes, g);
}

// The most lines of clusters' tiles along m.
inline int64_t lines_of_tiles(const attacca_gemm_arguments& g) {
  return kGrouped ? lines_of_groups(g, kTileM * kClusterM) : divide_up(g.m, kTileM * kClusterM);
}

template <class WeightsHost>
struct Builder {
  static attacca_info info() {
    attacca_info info = hopper_info();
    describe_element(info);
    info.b_first = kSwapped;
    info.fast_accumulation = ELEMENT == ELEMENT_E4M3 && !kPromote;
    info.b_k_major = kBKMajor;
    info.alternate_columns = kAlternate;
    info.scaled_blocks = kScaled;
    info.tile_m = kTileM;
    info.tile_n = kTileN;
    info.tile_k = kTileK;
    info.cluster_m = kClusterM;
    info.cluster_n = kClusterN;
    info.cluster_k = kConfig.cluster_k;
    info.schedule = kPingpong                   ? "pingpong"
                    : kSharedTail               ? "shared_tail"
                    : kSwapped && !kInRegisters ? "streaming"
                                                : "cooperative";
    info.stages = kStages;
    info.threads = kThreads;
    info.shared_bytes = kSharedBytes;
    info.align_d = kDirect ? 16 : kResultBits[0] == 8 ? 1 : 2;
    describe_hole(info);
    WeightsHost::describe(info);
    return info;
  }

  static int check(const attacca_gemm_arguments* g, char* reason, size_t bytes) {
    if (check_extents(*g, reason, bytes)) return 1;
    if (g->sm_count < 1) return refuse(reason, bytes, "sm_count is %d", g->sm_count);
    if (kGrouped && check_groups(*g, kMostGroups, reason, bytes)) return 1;
    if (check_row_index(*g, kGathered, reason, bytes)) return 1;
    const double tiles = double(lines_of_tiles(*g)) * kCluster *
                         double(divide_up(g->n, kTileN * kClusterN)) * g->batch;
    if (tiles >= 2147483647.0 / 2)
      return refuse(reason, bytes, "%g tiles are too many for 32 bits", tiles);
    if (check_operands(*g, reason, bytes)) return 1;
    if (kDirect && check_factor(factor_d(*g), Steps::Tma, reason, bytes)) return 1;
    for (int slot = 0; kDirect && slot < kFulls; ++slot)
      if (g->full[slot].pointer && check_factor(factor_full(*g, slot), Steps::Tma, reason, bytes))
        return 1;
    if (g->k == 0) return 0;  // nothing is read
    if (check_factor(factor_of_rows(*g, kGathered), Steps::Tma, reason, bytes)) return 1;
    return WeightsHost::check(*g, reason, bytes);
  }

  static int build(const attacca_gemm_arguments* g, void* params, uint32_t grid[3], char* reason,
                   size_t bytes) {
    if (check(g, reason, bytes)) return 1;
    Params all{};
    all.operands = epilogue_operands(*g);
    all.m = g->m;
    all.n = g->n;
    all.k = g->k;
    all.batches = g->batch;
    all.order.tiles_m = static_cast<int32_t>(lines_of_tiles(*g));
    all.order.tiles_n = static_cast<int32_t>(divide_up(g->n, kTileN * kClusterN));
    all.order.group = std::max(1, (g->swizzle > 0 ? g->swizzle : kDefaultGroup) / kCluster);
    all.order.along_n = g->raster == 2;
    all.tiles = all.order.tiles_m * all.order.tiles_n * g->batch;
    if (kDirect && all.tiles > 0) {
      if (encode_map(factor_d(*g), kBoxN, kBoxM, &all.result, reason, bytes)) return 1;
      if (g->full[0].pointer &&
          encode_map(factor_full(*g, 0), kBoxN, kBoxM, &all.full, reason, bytes))
        return 1;
    }
    if constexpr (kGrouped) WeightsHost::fill_rows(*g, all);
    // Without tiles or values of k, no factor is copied.
    if (all.tiles > 0 && g->k > 0) {
      if (!kGathered &&
          encode_map(factor_of_rows(*g, kGathered), kTileK, kRowBoxM, &all.a, reason, bytes))
        return 1;
      if (WeightsHost::fill(*g, all, reason, bytes)) return 1;
    }
    std::memcpy(params, &all, sizeof all);
    const int32_t places = std::max(1, g->sm_count * kBlocks / kCluster);
    // A shared tail gives each part of a cluster's tile to a cluster.
    const int32_t clusters = all.tiles * (kSharedTail ? kSharers : 1);
    grid[0] = static_cast<uint32_t>(std::min(clusters, places) * kCluster);
    grid[1] = grid[2] = 1;
    return 0;
  }
};

}  // namespace
