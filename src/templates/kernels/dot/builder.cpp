// The builder of a template of dot products.
#include <algorithm>
#include <cstring>

#include "dot/config.cuh"
#include "host/factor.hpp"

namespace {

using namespace attacca_dot;

constexpr int32_t kMaxGridZ = 65535;

attacca_info info() {
  attacca_info info = hopper_info();
  describe_element(info);
  info.tile_m = kTileM;
  info.tile_n = kTileN;
  info.tile_k = kStepChunks * kElementChunk;
  info.schedule = "dot";
  info.stages = kAhead;
  info.threads = kThreads;
  info.shared_bytes = kSharedBytes;
  info.align_d = kResultBits[0] == 8 ? 1 : 2;
  describe_hole(info);
  return info;
}

Matrix matrix_a(const attacca_gemm_arguments& g) {
  return {static_cast<const Element*>(g.a.pointer), g.a.row_stride, g.a.batch_stride};
}
Matrix matrix_b(const attacca_gemm_arguments& g, int set) {
  const attacca_operand& b = weight(g, set);
  return {static_cast<const Element*>(b.pointer), b.column_stride, b.batch_stride};
}

int check(const attacca_gemm_arguments* g, char* reason, size_t bytes) {
  if (check_extents(*g, reason, bytes)) return 1;
  if (g->m > kTileM)
    return refuse(reason, bytes, "it computes dot products of at most %d row%s of A, not %d",
                  kTileM, kTileM == 1 ? "" : "s", g->m);
  if (check_operands(*g, reason, bytes)) return 1;
  if (check_factor(factor_a(*g, kElementBytes), Steps::Multiples16, reason, bytes)) return 1;
  for (int s = 0; s < kSets; ++s)
    if (check_factor(factor_b(*g, s, true, kElementBytes), Steps::Multiples16, reason, bytes))
      return 1;
  return 0;
}

int build(const attacca_gemm_arguments* g, void* params, uint32_t grid[3], char* reason,
          size_t bytes) {
  if (check(g, reason, bytes)) return 1;
  Params all{};
  all.operands = epilogue_operands(*g);
  all.a = matrix_a(*g);
  for (int s = 0; s < kSets; ++s) all.b[s] = matrix_b(*g, s);
  all.m = g->m;
  all.n = g->n;
  all.k = g->k;
  all.batches = g->batch;
  all.first_blocks = g->sm_count * BLOCKS;
  std::memcpy(params, &all, sizeof all);
  grid[0] = static_cast<uint32_t>(divide_up(g->n, kTileN));
  grid[1] = g->m > 0;
  grid[2] = static_cast<uint32_t>(std::min(g->batch, kMaxGridZ));
  return 0;
}

}  // namespace

ATTACCA_RECORD(Params, info, check, no_workspace, build);
