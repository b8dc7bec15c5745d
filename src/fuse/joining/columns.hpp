// Constants side by side: matrices of equal rows as one matrix with the columns of all.
#pragma once

#include <optional>
#include <vector>

#include "fuse/views.hpp"

namespace attacca::fuse {

// A constant matrix, seen through views.
struct ConstantColumns {
  ir::Tensor tensor;
  int64_t offset = 0, row_stride = 0, column_stride = 0;
  int64_t rows = 0, columns = 0;

  const std::byte* first() const { return tensor.data() + offset * ir::size_of(tensor.dtype()); }
};

// [K, N] for a constant or views of one with that shape; a list of N and one number are one row.
// nullopt: it is no such constant, or its strides depend on a symbol.
std::optional<ConstantColumns> constant_columns(const ir::Graph& graph,
                                                const std::vector<View>& views, ir::Value value);

// A constant at an address whose elements are in other memory too.
struct MovedConstant {
  const std::byte* from;
  ir::Tensor to;
};

// Memory for the parts side by side, and how it is filled. `transposed`: the tensor is [N, K].
// The memory is taken before it is filled, so that a graph can be judged first.
struct SideBySide {
  ir::Tensor tensor;
  bool transposed = false;
  std::vector<ConstantColumns> parts;
  bool in_place = false;  // the memory is the parts' own

  // Writes the elements to the memory of `tensor`, which copies of it share.
  void fill();
  // For each constant that is a part as a whole: where its elements are now. REQUIRES: fill().
  std::vector<MovedConstant> moved() const;
};

// A matrix, transposed if all parts have their columns' elements together in memory; or a list of
// the columns of one row. Where the parts of a matrix lie side by side already, in memory of
// another SideBySide, it is that memory. nullopt: memory ran out. REQUIRES: parts of one dtype,
// with equal rows.
std::optional<SideBySide> matrices_side_by_side(std::vector<ConstantColumns> parts);
std::optional<SideBySide> lists_side_by_side(std::vector<ConstantColumns> parts);

}  // namespace attacca::fuse
