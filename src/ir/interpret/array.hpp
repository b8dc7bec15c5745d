// The interpreter's values: doubles or int64s behind a strided view, so that moves copy nothing.
#pragma once

#include <memory>
#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::ir {

struct Array {
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  // Exactly one is set.
  std::shared_ptr<std::vector<double>> numbers;
  std::shared_ptr<std::vector<int64_t>> integers;

  static Array of_numbers(std::vector<int64_t> extents);
  static Array of_integers(std::vector<int64_t> extents);
  bool is_integer() const { return integers != nullptr; }
  int64_t size() const;
  bool is_dense() const;
  double number(int64_t at) const;
  int64_t integer(int64_t at) const;
};

// Calls visit(i) with the position, in storage, of every element in row-major order.
template <class Visit>
void for_each_position(const Array& array, Visit&& visit) {
  const int64_t count = array.size();
  if (count == 0) return;
  const size_t rank = array.extents.size();
  std::vector<int64_t> index(rank, 0);
  int64_t position = array.offset;
  for (int64_t done = 0; done < count; ++done) {
    visit(position);
    for (size_t axis = rank; axis-- > 0;) {
      position += array.strides[axis];
      if (++index[axis] < array.extents[axis]) break;
      position -= array.strides[axis] * array.extents[axis];
      index[axis] = 0;
    }
  }
}

// A row-major copy, or the array itself if it is row-major.
Array dense(const Array& array);
// A view with stride 0 along grown axes. REQUIRES: extents broadcast.
Array broadcast_view(const Array& array, const std::vector<int64_t>& extents);

// What a transpose, permute, reshape, broadcast or slice of x is: a view, but for the reshape of an
// array that is not dense. REQUIRES: node is one of those, and has these extents.
Result<Array> viewed(const Node& node, Array x, std::vector<int64_t> extents,
                     const SymbolValues& symbols);
Array concatenated(const std::vector<Array>& parts, std::vector<int64_t> extents, int64_t axis);
// numpy.take; negative indices count from the end. An error where one is outside the axis.
Result<Array> gathered(const Array& x, const Array& index, std::vector<int64_t> extents,
                       int64_t axis);
// x, but x[index[i]] = updates[i] along axis 0; of equal indices the last one counts. An error
// where one is outside the axis.
Result<Array> scattered(const Array& x, const Array& index, const Array& updates);
// Which of x's rows (i) or of the updates (x's extent + i) each row of that result is.
Result<Array> scatter_sources(int64_t extent, const Array& index);
// The rows of an axis of `extent` that the indices name in row-major order; negative ones count
// from the end. An error where one is outside the axis.
Result<std::vector<int64_t>> indexed_rows(const Array& index, int64_t extent, Op op);
// The s64 places of the elements along an axis in ascending order; NaN is the largest, and equal
// elements keep their order.
Array argsorted(const Array& x, int64_t axis);
// begin, begin + 1, ...
Array arange(int64_t begin, int64_t count);
// The first number of an arange node, which may be negative.
Result<int64_t> first_of(const Node& arange, const SymbolValues& symbols);
// A reduction op over ascending axes, in f64 or wrapping int64. A maximum or minimum with a NaN is
// NaN. The maximum of nothing is -inf or the smallest integer, the mean of nothing is NaN.
Array reduced(Op op, const Array& x, const std::vector<int64_t>& axes,
              std::vector<int64_t> extents);

// a [batch..., M, K] times b [batch..., K, N], in f64 or wrapping int64.
Array reference_matmul(const Array& a, const Array& b);

}  // namespace attacca::ir
