// Checks of a grouped product's arguments, and of an index that names the rows of A.
#pragma once

#include <algorithm>

#include "host/factor.hpp"

namespace {

// A, or the matrix of which an index names rows.
[[maybe_unused]] inline Factor factor_of_rows(const attacca_gemm_arguments& g, bool gathered) {
  Factor factor = factor_a(g, kElementBytes);
  if (gathered) factor.outer = {"rows", g.a_rows.rows, factor.outer.stride};
  return factor;
}

// The most lines of tiles of `rows` rows. A group may begin one, and so may the rows after the last
// end.
[[maybe_unused]] inline int64_t lines_of_groups(const attacca_gemm_arguments& g, int rows) {
  return std::min<int64_t>(g.m, divide_up(g.m, rows) + g.groups);
}

[[maybe_unused]] inline int check_groups(const attacca_gemm_arguments& g, int most, char* reason,
                                         size_t bytes) {
  if (g.groups < 1 || g.groups > most)
    return refuse(reason, bytes, "%d groups; 1 to %d are taken", g.groups, most);
  if (g.batch != 1) return refuse(reason, bytes, "%d batches of groups", g.batch);
  return check_address("the ends of groups", g.group_ends, sizeof(int32_t), reason, bytes);
}

[[maybe_unused]] inline int check_row_index(const attacca_gemm_arguments& g, bool gathered,
                                            char* reason, size_t bytes) {
  const attacca_row_index& index = g.a_rows;
  if (!gathered && index.bytes == 0) return 0;
  if (!gathered) return refuse(reason, bytes, "the template reads A's rows by no index");
  if (index.bytes != 4 && index.bytes != 8)
    return refuse(reason, bytes, "an index of %d bytes; 4 or 8 are taken", index.bytes);
  if (index.rows < 0) return refuse(reason, bytes, "the index names one of %d rows", index.rows);
  const double most = 16.0 * 2147483647.0;  // a row's place is counted in 16 bytes
  if (double(index.rows) * double(g.a.row_stride) * kElementBytes > most)
    return refuse(reason, bytes, "%d rows of A take more than %g bytes", index.rows, most);
  return check_address("the index of A's rows", index.pointer, index.bytes, reason, bytes);
}

}  // namespace
