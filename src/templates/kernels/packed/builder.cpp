// The builder of a template for packed weights and few rows.
#include <cstring>

#include "host/tensor_map.hpp"
#include "packed/checks.hpp"
#include "packed/config.cuh"

namespace {

using namespace attacca_packed_weights;

// For more rows Hopper has the wgmma kernels (packed/feed.cuh), other devices the unfused path.
constexpr int kMostRows = kPortable ? 256 : 64;

attacca_info portable_info() {
  attacca_info info;
  info.arch = "sm_80";
  info.min_capability = 80;
  return info;
}

attacca_info info() {
  attacca_info info = kPortable ? portable_info() : hopper_info();
  describe_packed(info);
  info.packed_rounds = kRounded;
  info.tile_m = kTileM;
  info.tile_n = kTileN;
  info.tile_k = kBlock * kWarpsK;
  info.cluster_n = kCluster;
  info.schedule = "streaming";
  info.stages = kDepth;
  info.threads = kThreads;
  info.shared_bytes = kSharedBytes;
  info.align_d = 2;
  describe_hole(info);
  return info;
}

int check(const attacca_gemm_arguments* g, char* reason, size_t bytes) {
  if (check_extents(*g, reason, bytes)) return 1;
  if (check_packed(*g, reason, bytes)) return 1;
  if (g->m > kMostRows)
    return refuse(reason, bytes,
                  "for at most %d rows, not %d: it reads the weights once for each %d", kMostRows,
                  g->m, kTileM);
  if (check_operands(*g, reason, bytes)) return 1;
  return check_factor(factor_a(*g, 2), kBoxes ? Steps::Tma : Steps::Multiples16, reason, bytes);
}

int build(const attacca_gemm_arguments* g, void* params, uint32_t grid[3], char* reason,
          size_t bytes) {
  if (check(g, reason, bytes)) return 1;
  Params all{};
  all.operands = epilogue_operands(*g);
  all.whole = by_whole_chunks(all.operands, g->n);
  all.a = static_cast<const uint16_t*>(g->a.pointer);
  all.a_stride = g->a.row_stride;
  all.weights = packed_weights(*g);
  all.m = g->m;
  all.n = g->n;
  all.k = g->k;
  constexpr int kTurn = kWarpsK * kTogether;
  all.share = static_cast<int32_t>(divide_up(all.weights.blocks_k, kCluster * kTurn) * kTurn);
#if BOXES
  if (g->m > 0 && g->n > 0 && g->k > 0 &&
      encode_map(factor_a(*g, 2), kBlock, kTileM, &all.panels, reason, bytes))
    return 1;
#endif
  std::memcpy(params, &all, sizeof all);
  grid[0] = static_cast<uint32_t>(divide_up(g->n, kTileN) * kCluster);
  grid[1] = static_cast<uint32_t>(divide_up(g->m, kTileM));
  grid[2] = 1;
  return 0;
}

}  // namespace

ATTACCA_RECORD(Params, info, check, no_workspace, build);
