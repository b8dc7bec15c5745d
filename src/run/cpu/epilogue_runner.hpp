// Runs an epilogue's chunk program over tiles of its domain, once addresses and sizes are known.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "run/cpu/chunk_program.hpp"
#include "run/cpu/matrix.hpp"

namespace attacca::run {

// Rows [row0, row1) and columns [column0, column1) of one matrix of the batch.
struct Tile {
  int64_t batch = 0;
  int64_t row0 = 0, row1 = 0;
  int64_t column0 = 0, column1 = 0;
  int64_t group = 0;  // of a grouped product's rows
};

// A tensor in the domain's coordinates: an element is at `base` plus coordinates times strides, in
// elements.
struct BoundAccess {
  std::byte* base = nullptr;
  std::vector<int64_t> strides;  // one a domain axis
  // Set: the row of the tensor for each row of the domain.
  const int64_t* rows = nullptr;
  int64_t group_stride = 0;  // from the elements of a group's rows to those of the next one's
};

// The tile's accumulators, from (row0, column0) on.
struct AccumulatorTile {
  const void* data = nullptr;
  int64_t row_stride = 0;
};

// What one thread needs while it runs tiles; reused from tile to tile.
class ChunkScratch {
 public:
  ChunkScratch() = default;

 private:
  friend class BoundEpilogue;
  std::byte* take(size_t bytes);  // from the block; 64-byte aligned
  void reset(size_t bytes);
  AlignedBuffer block_;
  size_t capacity_ = 0, used_ = 0;
};

class BoundEpilogue {
 public:
  // Accesses of the epilogue's inputs (an accumulator's is ignored) and of its stores (no address:
  // it is not stored). All
  // arguments must outlive this. Adjacent axes that all accesses step through evenly are merged and
  // outer axes exchanged, unless there are accumulators, whose tiles are of the domain's last two
  // axes.
  BoundEpilogue(const epilogue::Epilogue& epilogue, const ChunkProgram& program,
                std::vector<int64_t> domain, std::vector<BoundAccess> inputs,
                std::vector<BoundAccess> outputs);

  // The domain that tiles are of, at least [M, N].
  const std::vector<int64_t>& domain() const { return domain_; }
  int64_t batches() const;
  // Accumulators in the order of the epilogue's accumulator inputs. `kept`: for each store the
  // address of its tile alone, row-major, or null: it goes where its access says. Empty: all do.
  void run(const Tile& tile, std::span<const AccumulatorTile> accumulators, ChunkScratch& scratch,
           std::span<std::byte* const> kept = {}) const;

 private:
  struct Stream;  // one operand or result of a tile
  class Walk;     // the state of one tile

  void merge_axes();
  void choose_rows();
  // The coordinates of the tile's first element.
  std::vector<int64_t> coordinates(const Tile& tile) const;

  const epilogue::Epilogue& epilogue_;
  const ChunkProgram& program_;
  std::vector<int64_t> domain_;
  std::vector<BoundAccess> inputs_, outputs_;
};

}  // namespace attacca::run
