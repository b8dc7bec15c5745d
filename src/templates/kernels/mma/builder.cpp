// The builder of an mma template.
#include <algorithm>
#include <cstring>

#include "host/factor.hpp"
#include "mma/config.cuh"

namespace {

using namespace attacca_mma;

constexpr int kDefaultGroup = 8;
constexpr uint32_t kMaxGridZ = 65535;

attacca_info info() {
  attacca_info info;
  // The PTX ISA has mma.sync for 8-bit floats from sm_89 on.
  info.arch = ELEMENT == ELEMENT_E4M3 ? "sm_89" : "sm_80";
  info.min_capability = ELEMENT == ELEMENT_E4M3 ? 89 : 80;
  describe_element(info);
  info.b_k_major = kBKMajor;
  info.any_strides = kAnyStrides;
  info.tile_m = kTileM;
  info.tile_n = kTileN;
  info.tile_k = kTileK;
  info.schedule = kAnyStrides ? "elementwise" : "multistage";
  info.stages = kStages;
  info.threads = kThreads;
  info.shared_bytes = kSharedBytes;
  info.align_a = info.align_b = kAnyStrides ? kElementBytes : 16;
  info.align_d = kResultBits[0] == 8 ? 1 : 2;
  describe_hole(info);
  return info;
}

// A and B as rows along the result's m or n.
Matrix matrix_a(const attacca_gemm_arguments& g) {
  return {static_cast<const Element*>(g.a.pointer), g.a.row_stride, g.a.column_stride,
          g.a.batch_stride};
}
Matrix matrix_b(const attacca_gemm_arguments& g, int set) {
  const attacca_operand& b = weight(g, set);
  return {static_cast<const Element*>(b.pointer), b.column_stride, b.row_stride, b.batch_stride};
}

int check(const attacca_gemm_arguments* arguments, char* reason, size_t bytes) {
  if (check_extents(*arguments, reason, bytes)) return 1;
  const int64_t tiles_m = divide_up(arguments->m, kTileM);
  const int64_t tiles_n = divide_up(arguments->n, kTileN);
  if (tiles_m * tiles_n > INT32_MAX)
    return refuse(reason, bytes, "%lld x %lld tiles are more than a grid holds",
                  static_cast<long long>(tiles_m), static_cast<long long>(tiles_n));
  if (check_operands(*arguments, reason, bytes)) return 1;
  if (kAnyStrides) return 0;
  if (check_factor(factor_a(*arguments, kElementBytes), Steps::Multiples16, reason, bytes))
    return 1;
  for (int s = 0; s < kSets; ++s)
    if (check_factor(factor_b(*arguments, s, kBKMajor, kElementBytes), Steps::Multiples16, reason,
                     bytes))
      return 1;
  return 0;
}

int build(const attacca_gemm_arguments* arguments, void* params, uint32_t grid[3], char* reason,
          size_t bytes) {
  if (check(arguments, reason, bytes)) return 1;
  Params all{};
  all.operands = epilogue_operands(*arguments);
  all.a = matrix_a(*arguments);
  for (int s = 0; s < kSets; ++s) all.b[s] = matrix_b(*arguments, s);
  all.m = arguments->m;
  all.n = arguments->n;
  all.k = arguments->k;
  all.batches = arguments->batch;
  all.order.tiles_m = static_cast<int32_t>(divide_up(arguments->m, kTileM));
  all.order.tiles_n = static_cast<int32_t>(divide_up(arguments->n, kTileN));
  all.order.group = arguments->swizzle > 0 ? arguments->swizzle : kDefaultGroup;
  all.order.along_n = arguments->raster == 2;
  std::memcpy(params, &all, sizeof all);
  grid[0] = static_cast<uint32_t>(all.order.tiles_m) * static_cast<uint32_t>(all.order.tiles_n);
  grid[1] = 1;
  grid[2] = std::min(static_cast<uint32_t>(all.batches), kMaxGridZ);
  return 0;
}

}  // namespace

ATTACCA_RECORD(Params, info, check, no_workspace, build);
