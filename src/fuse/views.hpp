// View ops as strides: which element of its source each element of a view is.
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

// Strides over `to` that reach, in the same order, the elements that `strides` reach over `from`,
// which has as many. nullopt if there are none, as when a broadcast or padded axis would be cut.
std::optional<std::vector<ir::Dim>> regroup(const ir::Shape& from,
                                            const std::vector<ir::Dim>& strides,
                                            const ir::Shape& to);

// NumPy broadcasting of strides over `from` to the axes of `to`.
std::vector<ir::Dim> broadcast_strides(const ir::Shape& from, const std::vector<ir::Dim>& strides,
                                       const ir::Shape& to);

// The role in an epilogue of an operand with these strides, the last two of rows and columns.
epilogue::Role role_of(const std::vector<ir::Dim>& strides);

// The access of the view node `view`, no reshape, to what `operand` of its operand accesses.
Access view_of(const ir::Graph& graph, ir::Value view, const Access& operand);

// The access of the view node `view`, where `operand` is the access of its operand. nullopt if no
// strides express it, and for negative steps, which kernels do not support.
std::optional<Access> apply_view(const ir::Graph& graph, ir::Value view, const Access& operand);

// For each value, where it is read from: itself, or, if it is a view op that strides express, the
// value in memory behind it.
std::vector<View> resolve_views(const ir::Graph& graph);

}  // namespace attacca::fuse
