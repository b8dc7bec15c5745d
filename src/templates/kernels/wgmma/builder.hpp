// What the builders of wgmma templates share. WeightsHost is the host's side of the row's Weights:
//   describe(info)                    adds what the metadata says of them
//   check(g, reason, bytes)           0 where the kernel takes B, else 1 and why not
//   fill(g, params, reason, bytes)    B's members of the kernel's parameters
#pragma once

#include <algorithm>
#include <cstring>

#include "common/checks.hpp"
#include "common/tensor_map.hpp"
#include "wgmma/layout.cuh"

namespace {

using namespace attacca_wgmma;

constexpr int kDefaultGroup = 8;

// A factor as TMA sees it: lines that are contiguous along one axis.
struct Factor {
  const char* name;
  const void* pointer;
  const char* inner_axis;
  int64_t inner_extent, inner_stride;
  const char* outer_axis;
  int64_t outer_extent, outer_stride;
  int64_t batch_stride;
  uint32_t box[2];            // what is copied at once
  int bytes = kElementBytes;  // of an element
};

Factor factor_a(const attacca_gemm_arguments& g) {
  return {"A",
          g.a.pointer,
          "k",
          g.k,
          g.a.column_stride,
          "m",
          g.m,
          g.a.row_stride,
          g.a.batch_stride,
          {kTileK, kTileM / kClusterN}};
}

// Results and full operands that move by TMA: a warp's box.
Factor factor_mn(const attacca_gemm_arguments& g, const char* name,
                 const attacca_operand& operand) {
  return {name,
          operand.pointer,
          "n",
          g.n,
          operand.column_stride,
          "m",
          g.m,
          operand.row_stride,
          operand.batch_stride,
          {kBoxN, kBoxM},
          kResultBytes};
}

// Strides along axes of one element say nothing.
int check_factor(const Factor& factor, const attacca_gemm_arguments& g, char* reason,
                 size_t bytes) {
  if (check_contiguous(factor.name, factor.inner_axis, factor.inner_stride, factor.inner_extent,
                       reason, bytes))
    return 1;
  if (check_address(factor.name, factor.pointer, reason, bytes)) return 1;
  const struct {
    const char* what;
    int64_t extent, stride, least;
  } strided[] = {{factor.outer_axis, factor.outer_extent, factor.outer_stride, 1},
                 {"batch", g.batch, factor.batch_stride, 0}};
  for (const auto& each : strided)
    if (each.extent > 1 && (each.stride < each.least || each.stride * factor.bytes % 16 != 0 ||
                            each.stride * factor.bytes >= kMaxStrideBytes))
      return refuse(reason, bytes,
                    "steps of %s along %s must be a multiple of 16 bytes, forwards and less than "
                    "2^40, not %lld",
                    factor.name, each.what, static_cast<long long>(each.stride) * factor.bytes);
  return 0;
}

int encode(const Factor& factor, const attacca_gemm_arguments& g, Map& map, char* reason,
           size_t bytes) {
  // Where a stride says nothing, one that the hardware takes.
  const int64_t outer_stride = factor.outer_extent > 1
                                   ? factor.outer_stride
                                   : divide_up(factor.inner_extent, kElementChunk) * kElementChunk;
  const int64_t batch_stride =
      g.batch > 1 ? factor.batch_stride : outer_stride * factor.outer_extent;
  const BoxedMatrix boxed{factor.pointer,
                          factor.bytes,
                          {factor.inner_extent, factor.outer_extent, g.batch},
                          {outer_stride * factor.bytes, batch_stride * factor.bytes},
                          {factor.box[0], factor.box[1]}};
  return encode_map(boxed, &map, reason, bytes);
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
    info.schedule = kPingpong              ? "pingpong"
                    : kSharedTail          ? "shared_tail"
                    : kSwapped && !kPacked ? "streaming"
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
    const double tiles = double(divide_up(g->m, kTileM * kClusterM)) * kCluster *
                         double(divide_up(g->n, kTileN * kClusterN)) * g->batch;
    if (tiles >= 2147483647.0 / 2)
      return refuse(reason, bytes, "%g tiles are too many for 32 bits", tiles);
    if (kDirect) {
      if (check_factor(factor_mn(*g, "D", g->result[0]), *g, reason, bytes)) return 1;
      if (g->full[0].pointer &&
          check_factor(factor_mn(*g, "full operand 0", g->full[0]), *g, reason, bytes))
        return 1;
    }
    if (g->k == 0) return 0;  // nothing is read
    if (check_factor(factor_a(*g), *g, reason, bytes)) return 1;
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
    all.order.tiles_m = static_cast<int32_t>(divide_up(g->m, kTileM * kClusterM));
    all.order.tiles_n = static_cast<int32_t>(divide_up(g->n, kTileN * kClusterN));
    all.order.group = std::max(1, (g->swizzle > 0 ? g->swizzle : kDefaultGroup) / kCluster);
    all.order.along_n = g->raster == 2;
    all.tiles = all.order.tiles_m * all.order.tiles_n * g->batch;
    if (kDirect && all.tiles > 0) {
      if (encode(factor_mn(*g, "D", g->result[0]), *g, all.result, reason, bytes)) return 1;
      if (g->full[0].pointer &&
          encode(factor_mn(*g, "full operand 0", g->full[0]), *g, all.full, reason, bytes))
        return 1;
    }
    // Without tiles or steps of k no factor is copied.
    if (all.tiles > 0 && g->k > 0) {
      if (encode(factor_a(*g), *g, all.a, reason, bytes)) return 1;
      if (WeightsHost::fill(*g, all, reason, bytes)) return 1;
    }
    std::memcpy(params, &all, sizeof all);
    const int32_t places = std::max(1, g->sm_count * kBlocks / kCluster);
    // Each part of a cluster's tile may be a shared tail.
    const int32_t clusters = all.tiles * (kSharedTail ? kSharers : 1);
    grid[0] = static_cast<uint32_t>(std::min(clusters, places) * kCluster);
    grid[1] = grid[2] = 1;
    return 0;
  }
};

}  // namespace
