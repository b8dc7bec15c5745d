// View-like ops as arithmetic on strides: maps each element of a view to an element of its source.
#pragma once

#include <optional>
#include <vector>

#include "epilogue/epilogue.hpp"
#include "ir/graph/graph.hpp"

namespace attacca::fuse {

using epilogue::Access;

// Element (c0, ..., cr) of a value is element access.offset + sum(c[i] * access.strides[i]) of
// `source`, one stride an axis of the value.
struct View {
  ir::Value source;
  Access access;
};

// Transpose, permute, reshape, slice, broadcast: ops that only choose elements.
bool is_view_op(ir::Op op);

// Row-major strides; 0 along axes of extent 1, which have no second element to step to.
std::vector<ir::Dim> dense_strides(const ir::Shape& shape);

// The strides over `to` of the elements that `strides` reach over `from`, both in row-major order
// of the same count; nullopt where no strides can (a broadcast or padded axis would be cut across).
std::optional<std::vector<ir::Dim>> regroup(const ir::Shape& from,
                                            const std::vector<ir::Dim>& strides,
                                            const ir::Shape& to);

// NumPy broadcasting of strides over `from` to the axes of `to`.
std::vector<ir::Dim> broadcast_strides(const ir::Shape& from, const std::vector<ir::Dim>& strides,
                                       const ir::Shape& to);

// What an operand of these strides is to an epilogue: the last two axes are its rows and columns.
epilogue::Role role_of(const std::vector<ir::Dim>& strides);

// The access of the view node `view`, no reshape, to what `operand` of its operand accesses.
Access view_of(const ir::Graph& graph, ir::Value view, const Access& operand);

// The access of the view node `view` to what `operand` of its operand accesses; nullopt where no
// strides express it, and for negative steps, which kernels do not take.
std::optional<Access> apply_view(const ir::Graph& graph, ir::Value view, const Access& operand);

// Every value as a view of the value that must be in memory to read it: the value itself, unless it
// is a view op that strides express.
std::vector<View> resolve_views(const ir::Graph& graph);

}  // namespace attacca::fuse
