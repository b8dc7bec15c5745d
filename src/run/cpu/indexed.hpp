// Rows of a matrix by an index: which they are, and adding to them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "epilogue/epilogue.hpp"
#include "ir/graph/mode.hpp"
#include "run/cpu/matrix.hpp"
#include "run/shared/access.hpp"

namespace attacca::run {

// An index's sizes for certain values of the symbols.
struct RowSizes {
  ConcreteAccess access;
  int64_t extent = 0;  // of the axis that it names rows of
};
Result<RowSizes> measure_rows(const epilogue::RowIndex& rows, const ir::SymbolValues& symbols);

// The rows that the first `count` indices name. An error where one is outside the axis; it names
// the op and the place.
Result<std::vector<int64_t>> rows_of(const ir::Tensor& index, const RowSizes& sizes, int64_t count,
                                     ir::Op op, const std::string& place);

// to = base, but to[rows[i]] += updates[i], in the order of i whatever the number of threads is.
// Floats of at most 32 bits: fp32 mode adds in f32 and rounds once, eager mode rounds each sum.
// REQUIRES: `to` is row-major, of base's dtype and sizes.
void add_rows(const MatrixView& base, const MatrixView& updates, std::span<const int64_t> rows,
              std::byte* to, ir::Mode mode, int threads);

}  // namespace attacca::run
