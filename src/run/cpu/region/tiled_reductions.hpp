// The reductions of a run's GEMM tiles, each computed while its tile is in cache.
#pragma once

#include <memory>
#include <vector>

#include "run/cpu/reduce.hpp"
#include "run/cpu/region/result_memory.hpp"

namespace attacca::run {

class TiledReductions {
 public:
  // The totals that one thread keeps for the same tile of all matrices, one for each reduction.
  using BatchTotals = std::vector<BatchReduction::Totals>;

  // `results` and `stored`: as `memory` made them. All must outlive this.
  TiledReductions(const ResultMemory& memory, const RegionSizes& sizes, ir::Mode mode,
                  std::vector<ir::Tensor>& results, const std::vector<ir::Tensor>& stored);

  bool empty() const { return reductions_.empty(); }
  // Whether one reduces over the matrices of the batch. A thread then computes the same tile of all
  // matrices, between start_batch() and finish_batch().
  bool over_batch() const;

  // Room for a tile of each output whose values no result holds, and null for the others. It is the
  // calling thread's own, until its next call.
  std::vector<std::byte*> keep_tiles(int64_t elements) const;
  void start_batch(const Tile& tile, BatchTotals& totals) const;
  // Reduces a tile of a domain. `block`: the number of its columns' block. `kept`: what
  // keep_tiles() gave, now with the tile's values. `totals`: null unless over_batch().
  void add(const std::vector<int64_t>& domain, const Tile& tile, int64_t block,
           const std::vector<std::byte*>& kept, BatchTotals* totals) const;
  void finish_batch(const Tile& tile, const BatchTotals& totals) const;
  // Writes what is reduced along rows, after all tiles.
  void finish_rows() const;

 private:
  struct Reduction {
    size_t output;
    size_t from;  // the output whose tiles hold what is reduced
    // One of the two.
    std::unique_ptr<RowReduction> rows;
    std::unique_ptr<BatchReduction> batch;
  };

  const std::vector<ir::Tensor>& stored_;
  std::vector<Reduction> reductions_;
};

}  // namespace attacca::run
