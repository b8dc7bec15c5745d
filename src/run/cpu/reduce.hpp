// Reductions of dense tensors, and of tiles of matrices while they are in cache.
#pragma once

#include <vector>

#include "ir/graph/mode.hpp"
#include "ir/graph/op.hpp"
#include "ir/graph/tensor.hpp"
#include "run/cpu/kernels/reduce.hpp"

namespace attacca::run {

// Reduces `from` over the axes where `reduced` is set. `to` has the kept axes' extents in order
// (extents of 1 may stand anywhere). Floats are summed in f64, rounded to f32 (except f64), then to
// to's dtype; in eager mode from the first element to the last in row-major order. Integers wrap.
// Results do not depend on the number of threads. REQUIRES: both row-major.
void reduce(ir::Op op, const ir::Tensor& from, const std::vector<bool>& reduced, ir::Tensor& to,
            ir::Mode mode, int threads);

// A part of a matrix in memory: rows from `row0` on, counted over all matrices of the batch.
struct ReducedTile {
  const std::byte* values = nullptr;
  int64_t row_stride = 0;  // in elements; columns follow each other
  int64_t row0 = 0, rows = 0, columns = 0;
};

// What tiles share: the reduction, and how their elements become lanes. Sums, roundings and orders
// are those of reduce().
class TileReduction {
 public:
  // `from`: a dtype of lanes, as a chunk program stores what is reduced.
  TileReduction(ir::Op op, ir::DType from, double count, ir::Mode mode, ir::Tensor& to);

 protected:
  std::byte* total(std::byte* totals, int64_t index) const;
  void store(const std::byte* totals, int64_t count, int64_t first) const;

  const Reducer& reducer_;
  const bool ordered_;
  const int64_t width_;  // bytes of an element
  const double divisor_;
  ir::Tensor& to_;
};

// Reduces rows that are cut into `blocks` side by side. With more than one a sum is not in order.
class RowReduction : TileReduction {
 public:
  RowReduction(ir::Op op, ir::DType from, int64_t rows, int64_t columns, int64_t blocks,
               ir::Mode mode, ir::Tensor& to);
  // Each tile once, by any thread.
  void add(const ReducedTile& tile, int64_t block);
  void finish();

 private:
  const int64_t rows_, blocks_;
  std::vector<double> room_;
};

// Reduces the elements at the same place in all matrices of a batch.
class BatchReduction : TileReduction {
 public:
  BatchReduction(ir::Op op, ir::DType from, int64_t matrices, int64_t columns, ir::Mode mode,
                 ir::Tensor& to);
  // The totals of one tile.
  using Totals = std::vector<double>;
  void start(int64_t rows, int64_t columns, Totals& totals) const;
  void add(const ReducedTile& tile, Totals& totals) const;
  // `row0`: of the matrix.
  void finish(int64_t row0, int64_t rows, int64_t column0, int64_t columns,
              const Totals& totals) const;

 private:
  const int64_t columns_;
};

}  // namespace attacca::run
