#include "run/cpu/region/tiled_reductions.hpp"

#include <algorithm>

#include "run/cpu/thread_pool.hpp"
#include "run/shared/extents.hpp"

namespace attacca::run {

TiledReductions::TiledReductions(const ResultMemory& memory, const RegionSizes& sizes,
                                 ir::Mode mode, std::vector<ir::Tensor>& results,
                                 const std::vector<ir::Tensor>& stored)
    : stored_(stored) {
  const int64_t rows = sizes.domain[sizes.domain.size() - 2], columns = sizes.domain.back();
  for (size_t i = 0; i < results.size(); ++i) {
    if (!memory.is_tiled(i, sizes)) continue;
    const epilogue::Output& output = memory.output(i);
    Reduction& each =
        reductions_.emplace_back(Reduction{i, memory.output_that_holds(i, sizes), {}, {}});
    const ir::DType from = memory.stored_dtype(i);
    const int64_t matrices = count_of(sizes.domain) / (rows * columns);
    if (output.kind == epilogue::OutputKind::RowReduce)
      each.rows = std::make_unique<RowReduction>(output.reduction, from, matrices * rows, columns,
                                                 divide_up(columns, block_columns(columns)), mode,
                                                 results[i]);
    else
      each.batch = std::make_unique<BatchReduction>(output.reduction, from, matrices, columns, mode,
                                                    results[i]);
  }
}

bool TiledReductions::over_batch() const {
  return std::any_of(reductions_.begin(), reductions_.end(),
                     [](const Reduction& each) { return each.batch != nullptr; });
}

std::vector<std::byte*> TiledReductions::keep_tiles(int64_t elements) const {
  thread_local std::vector<AlignedBuffer> tiles;
  tiles.resize(std::max(tiles.size(), reductions_.size()));
  std::vector<std::byte*> kept(stored_.size(), nullptr);
  for (size_t i = 0; i < reductions_.size(); ++i)
    if (reductions_[i].from == reductions_[i].output)
      kept[reductions_[i].output] =
          tiles[i].reserve(static_cast<size_t>(elements) * sizeof(double));
  return kept;
}

void TiledReductions::start_batch(const Tile& tile, BatchTotals& totals) const {
  totals.resize(std::max(totals.size(), reductions_.size()));
  for (size_t i = 0; i < reductions_.size(); ++i)
    if (reductions_[i].batch)
      reductions_[i].batch->start(tile.row1 - tile.row0, tile.column1 - tile.column0, totals[i]);
}

void TiledReductions::add(const std::vector<int64_t>& domain, const Tile& tile, int64_t block,
                          const std::vector<std::byte*>& kept, BatchTotals* totals) const {
  const int64_t row0 = tile.batch * domain[domain.size() - 2] + tile.row0;
  const int64_t rows = tile.row1 - tile.row0, columns = tile.column1 - tile.column0;
  for (size_t i = 0; i < reductions_.size(); ++i) {
    const Reduction& reduction = reductions_[i];
    ReducedTile from{kept[reduction.from], columns, row0, rows, columns};
    if (!from.values) {
      const ir::Tensor& whole = stored_[reduction.from];
      from.row_stride = domain.back();
      from.values =
          whole.data() + (row0 * domain.back() + tile.column0) * ir::size_of(whole.dtype());
    }
    if (reduction.rows)
      reduction.rows->add(from, block);
    else
      reduction.batch->add(from, (*totals)[i]);
  }
}

void TiledReductions::finish_batch(const Tile& tile, const BatchTotals& totals) const {
  for (size_t i = 0; i < reductions_.size(); ++i)
    if (reductions_[i].batch)
      reductions_[i].batch->finish(tile.row0, tile.row1 - tile.row0, tile.column0,
                                   tile.column1 - tile.column0, totals[i]);
}

void TiledReductions::finish_rows() const {
  for (const Reduction& each : reductions_)
    if (each.rows) each.rows->finish();
}

}  // namespace attacca::run
