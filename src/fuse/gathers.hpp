// Operands that a region reads where a gather reads them: rows that an index names, or one row for
// each group of rows.
#pragma once

#include <optional>

#include "fuse/workspace.hpp"

namespace attacca::fuse {

// What a gather of whole rows reads: a matrix and the index of its rows.
struct GatheredRows {
  ir::Value source;
  Access access;  // over [rows, columns]
  epilogue::RowIndex rows;
};
// nullopt: the node is no such gather.
std::optional<GatheredRows> gathered_rows(const Facts& facts, ir::Value node);

// The rows that a member of the draft reads as an operand, seen in a frame.
std::optional<GatheredRows> gathered_operand(const Workspace& work, const Draft& draft,
                                             ir::Value operand, const Frame* frame);

// A matrix of which each row of a grouped product reads the row of its group.
struct RowsOfGroups {
  ir::Value source;
  Access access;  // over [groups, columns]
};
// The matrix whose rows, gathered by the numbers of the rows' groups, a member of the draft reads
// as an operand, seen in a frame.
std::optional<RowsOfGroups> operand_of_groups(const Workspace& work, const Draft& draft,
                                              ir::Value operand, const Frame* frame);

}  // namespace attacca::fuse
