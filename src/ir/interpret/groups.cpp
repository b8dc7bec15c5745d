#include "ir/interpret/groups.hpp"

#include <algorithm>

namespace attacca::ir {

std::vector<int64_t> group_ends(const Array& offsets, int64_t rows) {
  return group_ends(offsets.integers->data() + offsets.offset, offsets.extents[0],
                    offsets.strides[0], rows);
}

Array reference_group_ids(const Array& offsets, int64_t rows) {
  Array result = Array::of_integers({rows});
  number_rows(group_ends(offsets, rows), rows, result.integers->data());
  return result;
}

Array rows_of(const Array& x, int64_t begin, int64_t end) {
  Array part = x;
  part.offset += begin * x.strides[0];
  part.extents[0] = end - begin;
  return part;
}

Array matrix_of_group(const Array& w, int64_t group) {
  Array matrix = w;
  matrix.offset += group * w.strides[0];
  matrix.extents.erase(matrix.extents.begin());
  matrix.strides.erase(matrix.strides.begin());
  return matrix;
}

Array reference_grouped_matmul(const Array& x, const Array& w, const Array& offsets) {
  const std::vector<int64_t> extents = {x.extents[0], w.extents[2]};
  Array result = x.is_integer() ? Array::of_integers(extents) : Array::of_numbers(extents);
  int64_t begin = 0, group = 0;
  for (const int64_t end : group_ends(offsets, x.extents[0])) {
    if (end > begin) {
      const Array part = reference_matmul(rows_of(x, begin, end), matrix_of_group(w, group));
      if (part.is_integer())
        std::copy(part.integers->begin(), part.integers->end(),
                  result.integers->begin() + begin * extents[1]);
      else
        std::copy(part.numbers->begin(), part.numbers->end(),
                  result.numbers->begin() + begin * extents[1]);
    }
    begin = end;
    ++group;
  }
  return result;
}

}  // namespace attacca::ir
