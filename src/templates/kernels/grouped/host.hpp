// Shared by the builders of grouped templates.
#pragma once

#include "common/epilogue.cuh"
#include "grouped/groups.cuh"
#include "host/groups.hpp"

namespace {

// `row_step`: a multiple of which the rows that it multiplies of a group's last tile are; 0: the
// tile's.
inline void describe_groups(attacca_info& info, bool gathered, int row_step = 0) {
  info.grouped = true;
  info.gathered = gathered;
  info.row_step = row_step;
}

// Sets the members of the kernel's parameters that describe the groups. The epilogue's matrices
// have no batches.
inline void fill_groups(const attacca_gemm_arguments& g, EpilogueOperands& operands,
                        attacca_groups::Groups& groups) {
  for (attacca_operand& full : operands.full) full.batch_stride = 0;
  for (attacca_operand& result : operands.result) result.batch_stride = 0;
  groups.ends = static_cast<const int32_t*>(g.group_ends);
  groups.stride = g.group_stride;
  groups.groups = g.groups;
#ifdef FITTED
  groups.whole = by_whole_chunks(operands, g.n);
#endif
#ifdef GATHERED
  const int64_t pitch = g.a_rows.rows > 1 ? g.a.row_stride * kElementBytes : 0;
  groups.rows = {g.a.pointer, pitch / 16, g.a_rows};
#endif
}

}  // namespace
