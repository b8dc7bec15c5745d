// The builder of a template for packed weights.
#include <cstring>

#include "common/checks.hpp"
#include "mixed/config.cuh"

namespace {

using namespace attacca_mixed;

// Beyond, weights that are unpacked once and multiplied by the vendor library are faster.
constexpr int kMostRows = 64;

attacca_info info() {
  attacca_info info;
  info.arch = "sm_90a";
  info.min_capability = info.max_capability = 90;
  info.input_types[0] = kBf16 ? "bf16" : "f16";
  info.packed_bits = kCodeBits;
  info.packed_floats = kCodeFloats;
  info.packed_scale_bits = kScaleBits;
  info.tile_m = kTileM;
  info.tile_n = kTileN;
  info.tile_k = kBlock * kWarpsK;
  info.cluster_n = kCluster;
  info.schedule = "streaming";
  info.dependent_launch = true;
  info.stages = kDepth;
  info.threads = kThreads;
  info.shared_bytes = kSharedBytes;
  info.align_d = 2;
  describe_hole(info);
  return info;
}

int check(const attacca_gemm_arguments* g, char* reason, size_t bytes) {
  if (check_extents(*g, reason, bytes)) return 1;
  if (g->batch > 1)
    return refuse(reason, bytes, "packed weights are one matrix, the product has %d", g->batch);
  if (g->m > kMostRows)
    return refuse(reason, bytes,
                  "for at most %d rows, not %d: it reads the weights once for each %d", kMostRows,
                  g->m, kTileM);
  if (g->packed.groups < 1) return refuse(reason, bytes, "%d groups of scales", g->packed.groups);
  if (g->a.column_stride != 1 && g->k > 1)
    return refuse(reason, bytes, "A must be contiguous along k, its stride there is %lld",
                  static_cast<long long>(g->a.column_stride));
  if ((g->m > 1 && g->a.row_stride % 8 != 0) || reinterpret_cast<uintptr_t>(g->a.pointer) % 16 != 0)
    return refuse(reason, bytes, "rows of A must be at multiples of 16 bytes");
  if (reinterpret_cast<uintptr_t>(g->b.pointer) % 16 != 0)
    return refuse(reason, bytes, "the packed tensor must be at a multiple of 16 bytes, not at %p",
                  g->b.pointer);
  return 0;
}

size_t workspace(const attacca_gemm_arguments*, size_t* zero_offset, size_t* zero_bytes) {
  *zero_offset = *zero_bytes = 0;
  return 0;
}

int divide_up(int value, int by) {
  return value / by + (value % by != 0);
}

int build(const attacca_gemm_arguments* g, void* params, uint32_t grid[3], char* reason,
          size_t bytes) {
  if (check(g, reason, bytes)) return 1;
  Params all{};
  all.operands = epilogue_operands(*g);
  all.a = static_cast<const uint16_t*>(g->a.pointer);
  all.a_stride = g->a.row_stride;
  all.packed = static_cast<const char*>(g->b.pointer);
  all.scales_at = g->packed.scales_at;
  all.zeros_at = g->packed.zeros_at;
  all.m = g->m;
  all.n = g->n;
  all.k = g->k;
  all.blocks_n = divide_up(g->n, kBlock);
  all.blocks_k = divide_up(g->k, kBlock);
  all.share = divide_up(all.blocks_k, kCluster * kWarpsK) * kWarpsK;
  all.groups = g->packed.groups;
  // One group: whatever the block, the first.
  all.group_shift = g->packed.group == 0 ? 31 : 0;
  while (g->packed.group > kBlock << all.group_shift) ++all.group_shift;
  all.zero = g->packed.zero;
  all.has_zeros = g->packed.has_zeros;
  std::memcpy(params, &all, sizeof all);
  grid[0] = static_cast<uint32_t>(divide_up(g->n, kTileN) * kCluster);
  grid[1] = static_cast<uint32_t>(divide_up(g->m, kTileM));
  grid[2] = 1;
  return 0;
}

}  // namespace

ATTACCA_RECORD(Params, info, check, workspace, build);
