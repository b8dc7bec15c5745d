// The groups of A's rows, and the index that may name these rows, in a kernel's parameters.
#pragma once

#include "abi.h"

namespace attacca_groups {

#ifdef GATHERED
// The matrix whose rows the index names. Rows begin `pieces` times 16 bytes apart.
struct NamedRows {
  const void* matrix;
  int64_t pieces;
  attacca_row_index index;
};
#endif

struct Groups {
  const int32_t* ends;  // of the groups (ir/interpret/groups.hpp)
  int64_t stride;       // of `ends`
  int32_t groups;
#ifdef FITTED
  int32_t whole;  // by_whole_chunks
#endif
#ifdef GATHERED
  NamedRows rows;
#endif
};

// Bytes of shared memory that a table (grouped/table.cuh) of at most so many groups takes.
constexpr int table_bytes(int most_groups) {
  return 2 * (most_groups + 2) * 4;
}

}  // namespace attacca_groups
