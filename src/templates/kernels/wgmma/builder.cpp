// The builder of a wgmma template.
#include <algorithm>
#include <cstring>

#include "common/checks.hpp"
#include "wgmma/config.cuh"

namespace {

using namespace attacca_wgmma;

constexpr int kDefaultGroup = 8;
constexpr int64_t kMaxStrideBytes = int64_t{1} << 40;

attacca_info info() {
  attacca_info info;
  info.arch = "sm_90a";
  info.min_capability = info.max_capability = 90;
  // The source is bf16; see instantiate().
  info.input_types[0] = "bf16";
  info.input_types[1] = "f16";
  info.tile_m = kTileM;
  info.tile_n = kTileN;
  info.tile_k = kTileK;
  info.cluster_m = kCluster;
  info.schedule = kPingpong ? "pingpong" : kSwapped ? "streaming" : "cooperative";
  info.dependent_launch = true;
  info.stages = kStages;
  info.threads = kThreads;
  info.shared_bytes = kSharedBytes;
  info.align_d = 2;
  describe_hole(info);
  return info;
}

// A factor as rows along the result's m or n, contiguous along k.
struct Factor {
  const char* name;
  const void* pointer;
  int64_t rows, row_stride, k_stride, batch_stride;
  uint32_t box;  // rows that are copied at once
};

Factor factor_a(const attacca_gemm_arguments& g) {
  return {"A", g.a.pointer, g.m, g.a.row_stride, g.a.column_stride, g.a.batch_stride, kTileM};
}

Factor factor_b(const attacca_gemm_arguments& g, int set) {
  const attacca_operand& b = set == 0 ? g.b : g.b1;
  return {set == 0 ? "B" : "B1", b.pointer,        g.n, b.column_stride, b.row_stride,
          b.batch_stride,        kTileN / kCluster};
}

// Strides along axes of one element say nothing.
int check_factor(const Factor& factor, const attacca_gemm_arguments& g, char* reason,
                 size_t bytes) {
  if (factor.k_stride != 1 && g.k > 1)
    return refuse(reason, bytes, "%s must be contiguous along k, its stride there is %lld",
                  factor.name, static_cast<long long>(factor.k_stride));
  if (reinterpret_cast<uintptr_t>(factor.pointer) % 16 != 0)
    return refuse(reason, bytes, "%s must be at a multiple of 16 bytes, not at %p", factor.name,
                  factor.pointer);
  const struct {
    const char* what;
    int64_t extent, stride, least;
  } strided[] = {{"rows", factor.rows, factor.row_stride, 1},
                 {"batches", g.batch, factor.batch_stride, 0}};
  for (const auto& each : strided)
    if (each.extent > 1 &&
        (each.stride < each.least || each.stride % 8 != 0 || each.stride * 2 >= kMaxStrideBytes))
      return refuse(reason, bytes,
                    "%s of %s must be a multiple of 16 bytes apart, forwards and less than 2^40, "
                    "not %lld",
                    each.what, factor.name, static_cast<long long>(each.stride) * 2);
  return 0;
}

int64_t divide_up(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

int check(const attacca_gemm_arguments* g, char* reason, size_t bytes) {
  if (check_extents(*g, reason, bytes)) return 1;
  if (g->sm_count < 1) return refuse(reason, bytes, "sm_count is %d", g->sm_count);
  const double tiles = double(divide_up(g->m, kTileM * kCluster)) * kCluster *
                       double(divide_up(g->n, kTileN)) * g->batch;
  if (tiles >= 2147483647.0 / 2)
    return refuse(reason, bytes, "%g tiles are too many for 32 bits", tiles);
  if (g->k == 0) return 0;  // nothing is read
  if (check_factor(factor_a(*g), *g, reason, bytes)) return 1;
  for (int s = 0; s < kSets; ++s)
    if (check_factor(factor_b(*g, s), *g, reason, bytes)) return 1;
  return 0;
}

size_t workspace(const attacca_gemm_arguments*, size_t* zero_offset, size_t* zero_bytes) {
  *zero_offset = *zero_bytes = 0;
  return 0;
}

// The driver's cuTensorMapEncodeTiled, its enumerations as numbers.
using Encode = int (*)(void* map, int type, uint32_t rank, const void* address,
                       const uint64_t* extents, const uint64_t* strides, const uint32_t* box,
                       const uint32_t* element_strides, int interleave, int swizzle, int promotion,
                       int fill);
constexpr int kUnsigned16 = 1, kNoInterleave = 0, kSwizzle128 = 3, kPromote256 = 3, kFillZero = 0;

int encode(const Factor& factor, const attacca_gemm_arguments& g, Map& map, char* reason,
           size_t bytes) {
  if (!attacca_encode_tiled || !factor.pointer)
    return refuse(
        reason, bytes, "%s",
        factor.pointer ? "no encoder of tensor maps was given" : "the factors need addresses");
  // Where a stride says nothing, one that the hardware takes.
  const int64_t row_stride = factor.rows > 1 ? factor.row_stride : divide_up(g.k, 8) * 8;
  const int64_t batch_stride = g.batch > 1 ? factor.batch_stride : row_stride * factor.rows;
  const uint64_t extents[] = {static_cast<uint64_t>(g.k), static_cast<uint64_t>(factor.rows),
                              static_cast<uint64_t>(g.batch)};
  const uint64_t strides[] = {static_cast<uint64_t>(row_stride) * 2,
                              static_cast<uint64_t>(batch_stride) * 2};
  const uint32_t box[] = {kTileK, factor.box, 1}, steps[] = {1, 1, 1};
  const int failure = reinterpret_cast<Encode>(attacca_encode_tiled)(
      &map, kUnsigned16, 3, factor.pointer, extents, strides, box, steps, kNoInterleave,
      kSwizzle128, kPromote256, kFillZero);
  if (failure != 0) return refuse(reason, bytes, "cuTensorMapEncodeTiled failed with %d", failure);
  return 0;
}

int build(const attacca_gemm_arguments* g, void* params, uint32_t grid[3], char* reason,
          size_t bytes) {
  if (check(g, reason, bytes)) return 1;
  Params all{};
  all.operands = epilogue_operands(*g);
  all.m = g->m;
  all.n = g->n;
  all.k = g->k;
  all.batches = g->batch;
  all.order.tiles_m = static_cast<int32_t>(divide_up(g->m, kTileM * kCluster));
  all.order.tiles_n = static_cast<int32_t>(divide_up(g->n, kTileN));
  all.order.group = std::max(1, (g->swizzle > 0 ? g->swizzle : kDefaultGroup) / kCluster);
  all.order.along_n = g->raster == 2;
  all.tiles = all.order.tiles_m * all.order.tiles_n * g->batch;
  // Without tiles or steps of k nothing is copied.
  if (all.tiles > 0 && g->k > 0) {
    if (encode(factor_a(*g), *g, all.a, reason, bytes)) return 1;
    for (int s = 0; s < kSets; ++s)
      if (encode(factor_b(*g, s), *g, all.b[s], reason, bytes)) return 1;
  }
  std::memcpy(params, &all, sizeof all);
  const int32_t places = std::max(1, g->sm_count * BLOCKS / kCluster);
  grid[0] = static_cast<uint32_t>(std::min(all.tiles, places) * kCluster);
  grid[1] = grid[2] = 1;
  return 0;
}

}  // namespace

ATTACCA_RECORD(Params, info, check, workspace, build);
