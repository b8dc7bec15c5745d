#include "run/cpu/region/gemm_tiles.hpp"

#include <algorithm>

#include "run/cpu/region/tiling.hpp"
#include "run/cpu/thread_pool.hpp"

namespace attacca::run {
namespace {

// `group`: of all rows of the tile. `totals`: of reductions over the batch, null without them.
void run_gemm_tile(const GemmTiles& tiles, const Tile& tile, int64_t block, int64_t group,
                   TiledReductions::BatchTotals* totals) {
  thread_local ChunkScratch scratch;
  thread_local std::vector<AlignedBuffer> buffers;
  const std::vector<PreparedProduct>& products = tiles.products;
  const std::vector<int64_t>& domain = tiles.epilogue.domain();
  if (buffers.size() < products.size()) buffers.resize(products.size());
  const int64_t rows = tile.row1 - tile.row0, columns = tile.column1 - tile.column0;
  std::vector<AccumulatorTile> accumulators;
  for (size_t i = 0; i < products.size(); ++i) {
    std::byte* out = buffers[i].reserve(static_cast<size_t>(rows * columns) * sizeof(double));
    products[i].multiply(tile, block, group, domain, out);
    accumulators.push_back({out, columns});
  }
  if (tiles.reductions.empty()) return tiles.epilogue.run(tile, accumulators, scratch);
  const std::vector<std::byte*> kept = tiles.reductions.keep_tiles(rows * columns);
  tiles.epilogue.run(tile, accumulators, scratch, kept);
  tiles.reductions.add(domain, tile, block, kept, totals);
}

// Computes the same tile of all matrices, one after the other.
void run_tile_of_batch(const GemmTiles& tiles, Tile tile, int64_t block) {
  thread_local TiledReductions::BatchTotals totals;
  tiles.reductions.start_batch(tile, totals);
  for (tile.batch = 0; tile.batch < tiles.epilogue.batches(); ++tile.batch)
    run_gemm_tile(tiles, tile, block, Groups::kNone, &totals);
  tiles.reductions.finish_batch(tile, totals);
}

}  // namespace

void run_gemm_tiles(const GemmTiles& tiles, int threads) {
  const std::vector<int64_t>& domain = tiles.epilogue.domain();
  const int64_t rows = domain[domain.size() - 2], columns = domain.back();
  const int64_t wide = block_columns(columns), across = divide_up(columns, wide);
  const bool over_batch = tiles.reductions.over_batch();
  const int64_t batches = over_batch ? 1 : tiles.epilogue.batches();
  const int64_t tall = tile_rows(rows, batches * across, threads);
  const int64_t down = divide_up(rows, tall);
  ThreadPool::shared().run(threads, batches * across * down, [&](int64_t task) {
    const int64_t row0 = task % down * tall, block = task / down % across;
    const Tile tile{task / down / across, row0, std::min(rows, row0 + tall), block * wide,
                    std::min(columns, (block + 1) * wide)};
    over_batch ? run_tile_of_batch(tiles, tile, block)
               : run_gemm_tile(tiles, tile, block, Groups::kNone, nullptr);
  });
}

void run_group_tiles(const GemmTiles& tiles, const Groups& groups, int threads) {
  const std::vector<int64_t>& domain = tiles.epilogue.domain();
  const int64_t columns = domain.back(), wide = block_columns(columns);
  const int64_t across = divide_up(columns, wide);
  const std::vector<Strip> strips = strips_of(groups, domain[0], across, threads);
  const auto down = static_cast<int64_t>(strips.size());
  const auto last = static_cast<int64_t>(groups.ends.size()) - 1;
  // A group's tiles with the same columns follow each other: its weights are in cache.
  ThreadPool::shared().run(threads, down * across, [&](int64_t task) {
    const Strip& strip = strips[static_cast<size_t>(task % down)];
    const int64_t block = task / down;
    const Tile tile{0,
                    strip.row0,
                    strip.row1,
                    block * wide,
                    std::min(columns, (block + 1) * wide),
                    strip.group == Groups::kNone ? last : strip.group};
    run_gemm_tile(tiles, tile, block, strip.group, nullptr);
  });
}

}  // namespace attacca::run
