// Which rows of a grouped product belong to which group.
#pragma once

#include <algorithm>
#include <vector>

#include "ir/interpret/array.hpp"

namespace attacca::ir {

// The ends of the groups: group e has the rows from the end of group e - 1, or 0, up to end e. The
// offsets are any numbers. An end that lies before the end of the group in front of it makes the
// group empty, and one beyond the rows means their number. Rows at and after the last end belong to
// no group.
template <class Offset>
std::vector<int64_t> group_ends(const Offset* offsets, int64_t groups, int64_t stride,
                                int64_t rows) {
  std::vector<int64_t> ends;
  int64_t end = 0;
  for (int64_t group = 0; group < groups; ++group) {
    const auto given = static_cast<int64_t>(offsets[group * stride]);
    end = given < end ? end : given < rows ? given : rows;
    ends.push_back(end);
  }
  return ends;
}
std::vector<int64_t> group_ends(const Array& offsets, int64_t rows);

// The group of each of `rows` rows. Rows of no group have the last one's number, and 0 if there is
// no group.
template <class Id>
void number_rows(const std::vector<int64_t>& ends, int64_t rows, Id* ids) {
  int64_t begin = 0;
  Id group = 0;
  for (const int64_t end : ends) {
    std::fill(ids + begin, ids + end, group++);
    begin = end;
  }
  std::fill(ids + begin, ids + rows, group == 0 ? group : group - 1);
}
Array reference_group_ids(const Array& offsets, int64_t rows);

// Rows [begin, end) of x, as a view.
Array rows_of(const Array& x, int64_t begin, int64_t end);
// Matrix `group` of w [E, K, N], as a view.
Array matrix_of_group(const Array& w, int64_t group);

// x [R, K], each row times the matrix of its group of w [E, K, N]; rows of no group give 0. In f64
// or wrapping int64.
Array reference_grouped_matmul(const Array& x, const Array& w, const Array& offsets);

}  // namespace attacca::ir
