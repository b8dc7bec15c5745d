// The builder of a pointwise template.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "host/checks.hpp"
#include "pointwise/kernel.cuh"

namespace {

using attacca_pointwise::kBlockChunks;
using attacca_pointwise::kFewestChunks;
using attacca_pointwise::kThreads;
using attacca_pointwise::Params;

attacca_info info() {
  attacca_info info;
  info.family = "pointwise";
  info.arch = POINTWISE_DEPENDENT ? "sm_90" : "sm_80";
  info.min_capability = POINTWISE_DEPENDENT ? 90 : 80;
  info.schedule = "chunks";
  info.dependent_launch = POINTWISE_DEPENDENT;
  info.tile_m = 1;
  info.tile_n = kBlockChunks * kChunk;
  info.threads = kThreads;
  info.align_a = info.align_b = info.align_d = 1;
  info.any_strides = true;
  info.accumulators = 0;
  describe_hole(info);
  return info;
}

int64_t row_chunks(const attacca_gemm_arguments& arguments) {
  return divide_up(arguments.n, kChunk);
}

int check(const attacca_gemm_arguments* arguments, char* reason, size_t reason_bytes) {
  if (check_extents(*arguments, reason, reason_bytes)) return 1;
  if (check_operands(*arguments, reason, reason_bytes)) return 1;
  constexpr int64_t kMostChunks = int64_t{INT32_MAX} * kBlockChunks;  // grid.x counts blocks
  const int64_t rows = int64_t{arguments->m} * arguments->batch;
  if (rows <= kMostChunks / std::max<int64_t>(row_chunks(*arguments), 1)) return 0;
  return refuse(reason, reason_bytes, "%d x %d x %d elements are more than one launch takes",
                arguments->batch, arguments->m, arguments->n);
}

bool is_whole(const Params& all) {
  const auto whole = [](const attacca_pointwise::Alternate& alternate) {
    return !alternate.words.pointer || alternate.access == kAccessChunks;
  };
  return all.chunks <= INT32_MAX && whole(all.alternate) && whole(all.alternate_rows) &&
         by_whole_chunks(all.operands, all.columns, all.alternate.words.pointer ? 2 : 0,
                         all.alternate_rows.words.pointer ? kRows : 0);
}

// Chunks of a block: the most for which every multiprocessor gets two blocks, but at least
// kFewestChunks.
int32_t block_chunks(int64_t chunks, int32_t sm_count) {
  int32_t each = kBlockChunks;
  while (each > kFewestChunks && divide_up(chunks, each) < int64_t{2} * sm_count) each /= 2;
  return each;
}

int build(const attacca_gemm_arguments* arguments, void* params, uint32_t grid[3], char* reason,
          size_t reason_bytes) {
  if (check(arguments, reason, reason_bytes)) return 1;
  Params all{};
  all.operands = epilogue_operands(*arguments);
  if (attacca_pointwise::kAlternates)
    all.alternate = attacca_pointwise::find_alternate(arguments->full[0], arguments->full[1]);
  all.alternate_rows = attacca_pointwise::find_alternate(arguments->row[0], arguments->row[1]);
  all.rows = arguments->m;
  all.columns = arguments->n;
  const int64_t chunks = row_chunks(*arguments);
  all.chunks = chunks * arguments->m * arguments->batch;
  all.block_chunks = block_chunks(all.chunks, arguments->sm_count);
  all.whole = is_whole(all);
  all.row_chunks =
      attacca_pointwise::make_divisor(static_cast<uint32_t>(std::max<int64_t>(chunks, 1)));
  all.batch_rows = attacca_pointwise::make_divisor(std::max(arguments->m, 1));
  std::memcpy(params, &all, sizeof all);
  grid[0] = static_cast<uint32_t>(divide_up(all.chunks, all.block_chunks));
  grid[1] = grid[2] = 1;
  return 0;
}

}  // namespace

ATTACCA_RECORD(Params, info, check, no_workspace, build);
