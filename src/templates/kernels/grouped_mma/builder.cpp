// The builder of a grouped mma template.
#include <algorithm>
#include <cstring>

#include "grouped/host.hpp"
#include "grouped_mma/config.cuh"

namespace {

using namespace attacca_grouped_mma;
using attacca_mma::kBKMajor;
using attacca_mma::kSets;
using attacca_mma::kTileM;
using attacca_mma::kTileN;

constexpr int kDefaultGroup = 8;  // lines of tiles (common/tile_order.cuh)

attacca_info info() {
  attacca_info info;
  info.arch = "sm_80";
  info.min_capability = 80;
  describe_element(info);
  info.b_k_major = kBKMajor;
  info.alternate_columns = kAlternate;
  info.tile_m = kTileM;
  info.tile_n = kTileN;
  info.tile_k = attacca_mma::kTileK;
  info.schedule = "multistage";
  info.stages = attacca_mma::kStages;
  info.threads = kThreads;
  info.shared_bytes = kSharedBytes;
  info.align_d = 2;
  describe_hole(info);
  describe_groups(info, kGathered);
  return info;
}

// B (set 0) or B1 of every group. Alternate columns are one matrix.
Factor factor_of(const attacca_gemm_arguments& g, int set) {
  Factor factor = factor_b(g, set, kBKMajor, kElementBytes);
  factor.batch = {"group", g.groups, factor.batch.stride};
  return kAlternate ? both_columns(factor, g) : factor;
}

int check(const attacca_gemm_arguments* g, char* reason, size_t bytes) {
  if (check_extents(*g, reason, bytes)) return 1;
  if (g->sm_count < 1) return refuse(reason, bytes, "sm_count is %d", g->sm_count);
  if (check_groups(*g, kMostGroups, reason, bytes)) return 1;
  if (check_row_index(*g, kGathered, reason, bytes)) return 1;
  const double tiles = double(lines_of_groups(*g, kTileM)) * double(divide_up(g->n, kTileN));
  if (tiles >= 2147483647.0 / 2)
    return refuse(reason, bytes, "%g tiles are too many for 32 bits", tiles);
  if (check_operands(*g, reason, bytes)) return 1;
  if (g->k == 0) return 0;  // nothing is read
  if (check_factor(factor_of_rows(*g, kGathered), kGathered ? Steps::Tma : Steps::Multiples16,
                   reason, bytes))
    return 1;
  if (kAlternate && check_alternate(*g, g->groups, reason, bytes)) return 1;
  if (kAlternate && g->n >= 1 << 29)  // bytes of a row of both are counted in 32 bits
    return refuse(reason, bytes, "%d columns are too many", g->n);
  for (int s = 0; s < (kAlternate ? 1 : kSets); ++s)
    if (check_factor(factor_of(*g, s), Steps::Multiples16, reason, bytes)) return 1;
  return 0;
}

int build(const attacca_gemm_arguments* g, void* params, uint32_t grid[3], char* reason,
          size_t bytes) {
  if (check(g, reason, bytes)) return 1;
  Params all{};
  all.operands = epilogue_operands(*g);
  all.a = {static_cast<const Element*>(g->a.pointer), g->a.row_stride, g->a.column_stride, 0};
  for (int s = 0; s < kSets; ++s) {
    const attacca_operand& b = weight(*g, s);
    all.b[s] = {static_cast<const Element*>(factor_of(*g, s).pointer), b.column_stride,
                b.row_stride, b.batch_stride};
  }
  all.odd_first = kAlternate && g->b.pointer > g->b1.pointer;
  all.m = g->m;
  all.n = g->n;
  all.k = g->k;
  all.batches = 1;
  all.order.tiles_m = static_cast<int32_t>(lines_of_groups(*g, kTileM));
  all.order.tiles_n = static_cast<int32_t>(divide_up(g->n, kTileN));
  all.order.group = g->swizzle > 0 ? g->swizzle : kDefaultGroup;
  all.order.along_n = g->raster == 2;
  fill_groups(*g, all.operands, all.weights);
  std::memcpy(params, &all, sizeof all);
  const int64_t tiles = int64_t{all.order.tiles_m} * all.order.tiles_n;
  grid[0] = static_cast<uint32_t>(std::min<int64_t>(tiles, int64_t{g->sm_count} * kBlocks));
  grid[1] = grid[2] = 1;
  return 0;
}

}  // namespace

ATTACCA_RECORD(Params, info, check, no_workspace, build);
