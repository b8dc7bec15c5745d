// The builder of an mma template.
#include <algorithm>
#include <cstring>

#include "common/checks.hpp"
#include "mma/config.cuh"

namespace {

using namespace attacca_mma;

constexpr int kDefaultGroup = 8;
constexpr uint32_t kMaxGridZ = 65535;

attacca_info info() {
  attacca_info info;
  // 8-bit floats came later.
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

Factor factor_a(const attacca_gemm_arguments& arguments) {
  return {static_cast<const Element*>(arguments.a.pointer), arguments.a.row_stride,
          arguments.a.column_stride, arguments.a.batch_stride};
}

Factor factor_b(const attacca_gemm_arguments& arguments, int set) {
  const attacca_operand& b = weight(arguments, set);
  return {static_cast<const Element*>(b.pointer), b.column_stride, b.row_stride, b.batch_stride};
}

// An axis of one element is never stepped along.
bool whole_chunks(int64_t stride, int32_t extent) {
  return stride % kElementChunk == 0 || extent <= 1;
}

// Whether a factor can be copied in 16-byte chunks.
int check_factor(const char* name, const Factor& factor, bool k_major, int32_t rows, int32_t k,
                 int32_t batch, char* reason, size_t bytes) {
  const int64_t inner = k_major ? factor.k_stride : factor.row_stride;
  const int64_t outer = k_major ? factor.row_stride : factor.k_stride;
  if (check_contiguous(name, k_major ? "k" : "n", inner, k_major ? k : rows, reason, bytes))
    return 1;
  if (!whole_chunks(outer, k_major ? rows : k))
    return refuse(reason, bytes, "rows of %s must be 16 bytes apart or a multiple, not %lld", name,
                  static_cast<long long>(outer) * kElementBytes);
  if (!whole_chunks(factor.batch_stride, batch))
    return refuse(reason, bytes, "batches of %s must be 16 bytes apart or a multiple, not %lld",
                  name, static_cast<long long>(factor.batch_stride) * kElementBytes);
  return check_address(name, factor.pointer, reason, bytes);
}

int check(const attacca_gemm_arguments* arguments, char* reason, size_t bytes) {
  if (check_extents(*arguments, reason, bytes)) return 1;
  const int64_t tiles_m = divide_up(arguments->m, kTileM);
  const int64_t tiles_n = divide_up(arguments->n, kTileN);
  if (tiles_m * tiles_n > INT32_MAX)
    return refuse(reason, bytes, "%lld x %lld tiles are more than a grid holds",
                  static_cast<long long>(tiles_m), static_cast<long long>(tiles_n));
  if (kAnyStrides) return 0;
  if (check_factor("A", factor_a(*arguments), true, arguments->m, arguments->k, arguments->batch,
                   reason, bytes))
    return 1;
  static constexpr const char* kNames[] = {"B", "B1"};
  for (int s = 0; s < kSets; ++s)
    if (check_factor(kNames[s], factor_b(*arguments, s), kBKMajor, arguments->n, arguments->k,
                     arguments->batch, reason, bytes))
      return 1;
  return 0;
}

int build(const attacca_gemm_arguments* arguments, void* params, uint32_t grid[3], char* reason,
          size_t bytes) {
  if (check(arguments, reason, bytes)) return 1;
  Params all{};
  all.operands = epilogue_operands(*arguments);
  all.a = factor_a(*arguments);
  for (int s = 0; s < kSets; ++s) all.b[s] = factor_b(*arguments, s);
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
