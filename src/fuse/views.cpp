#include "fuse/views.hpp"

#include "support/check.hpp"

namespace attacca::fuse {
namespace {

using ir::Dim;
using ir::Op;
using ir::Shape;

struct Axis {
  Dim extent;
  Dim stride;
};

// The axes with an extent other than 1; others do not matter.
std::vector<Axis> real_axes(const Shape& shape, const std::vector<Dim>& strides) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!shape[i].is(1)) axes.push_back({shape[i], strides[i]});
  return axes;
}

// The stride of one axis that walks axes[begin, end) in row-major order.
std::optional<Dim> merged_stride(const std::vector<Axis>& axes, size_t begin, size_t end) {
  for (size_t i = begin; i + 1 < end; ++i)
    if (!(axes[i].stride == axes[i + 1].stride * axes[i + 1].extent)) return std::nullopt;
  return axes[end - 1].stride;
}

enum class Grow : uint8_t { From, To, Both };

// Which group of axes to extend so that the products of extents can become equal.
Grow to_extend(const Dim& from, const Dim& to) {
  if (from.is_static() && to.is_static()) return from.value() < to.value() ? Grow::From : Grow::To;
  if (divide(from, to)) return Grow::To;
  if (divide(to, from)) return Grow::From;
  return Grow::Both;
}

// Finds the ends of the smallest next groups of `from` and `to` axes whose extents have equal
// products; false if there are none.
bool next_groups(const std::vector<Axis>& from, const std::vector<Axis>& to, size_t& from_end,
                 size_t& to_end) {
  Dim from_product = from[from_end++].extent, to_product = to[to_end++].extent;
  while (!(from_product == to_product)) {
    const Grow grow = to_extend(from_product, to_product);
    const bool want_from = grow != Grow::To, want_to = grow != Grow::From;
    if ((want_from && from_end < from.size())) {
      from_product = from_product * from[from_end++].extent;
    } else if (want_to && to_end < to.size()) {
      to_product = to_product * to[to_end++].extent;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

bool is_view_op(Op op) {
  switch (op) {
    case Op::Transpose:
    case Op::Permute:
    case Op::Reshape:
    case Op::Slice:
    case Op::Broadcast:
      return true;
    default:
      return false;
  }
}

std::vector<Dim> dense_strides(const Shape& shape) {
  std::vector<Dim> strides = ir::contiguous_strides(shape);
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i].is(1)) strides[i] = 0;
  return strides;
}

std::optional<std::vector<Dim>> regroup(const Shape& from, const std::vector<Dim>& strides,
                                        const Shape& to) {
  if (from == to) return strides;
  const std::vector<Axis> source = real_axes(from, strides);
  std::vector<Axis> target = real_axes(to, std::vector<Dim>(to.size()));
  size_t i = 0, j = 0;
  while (i < source.size() && j < target.size()) {
    size_t source_end = i, target_end = j;
    if (!next_groups(source, target, source_end, target_end)) return std::nullopt;
    auto stride = merged_stride(source, i, source_end);
    if (!stride) return std::nullopt;
    for (size_t axis = target_end; axis-- > j;) {
      target[axis].stride = *stride;
      *stride = *stride * target[axis].extent;
    }
    i = source_end;
    j = target_end;
  }
  if (i < source.size() || j < target.size()) return std::nullopt;
  std::vector<Dim> result(to.size());
  for (size_t axis = 0, next = 0; axis < to.size(); ++axis)
    if (!to[axis].is(1)) result[axis] = target[next++].stride;
  return result;
}

std::vector<Dim> broadcast_strides(const Shape& from, const std::vector<Dim>& strides,
                                   const Shape& to) {
  ATTACCA_CHECK(from.size() <= to.size(), "broadcast to a lower rank");
  std::vector<Dim> result(to.size());
  const size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    if (!from[i].is(1)) result[lead + i] = strides[i];
  return result;
}

epilogue::Role role_of(const std::vector<Dim>& strides) {
  using epilogue::Role;
  const bool row_moves = !strides[strides.size() - 2].is(0), column_moves = !strides.back().is(0);
  if (row_moves) return column_moves ? Role::Full : Role::Column;
  return column_moves ? Role::Row : Role::Scalar;
}

Access view_of(const ir::Graph& graph, ir::Value view, const Access& operand) {
  const ir::Node& node = graph[view];
  const Shape& to = node.type.shape;
  Access result = operand;
  switch (node.op) {
    case Op::Transpose:
      std::swap(result.strides[to.size() - 1], result.strides[to.size() - 2]);
      break;
    case Op::Permute:
      for (size_t i = 0; i < to.size(); ++i)
        result.strides[i] = operand.strides[node.get<ir::PermuteAttrs>().axes[i]];
      break;
    case Op::Broadcast:
      result.strides = broadcast_strides(graph.type(node.operands[0]).shape, operand.strides, to);
      break;
    default:
      ATTACCA_CHECK(node.op == Op::Slice, "a view that strides always express");
      for (size_t i = 0; i < to.size(); ++i) {
        const ir::SliceRange& range = node.get<ir::SliceAttrs>().ranges[i];
        result.offset = result.offset + range.begin * operand.strides[i];
        result.strides[i] = to[i].is(1) ? Dim(0) : operand.strides[i] * Dim(range.step);
      }
  }
  return result;
}

std::optional<Access> apply_view(const ir::Graph& graph, ir::Value view, const Access& operand) {
  const ir::Node& node = graph[view];
  if (node.op == Op::Reshape) {
    auto strides = regroup(graph.type(node.operands[0]).shape, operand.strides, node.type.shape);
    if (!strides) return std::nullopt;
    return Access{operand.offset, *std::move(strides)};
  }
  if (node.op == Op::Slice)
    for (const ir::SliceRange& range : node.get<ir::SliceAttrs>().ranges)
      if (range.step < 0) return std::nullopt;
  return view_of(graph, view, operand);
}

std::vector<View> resolve_views(const ir::Graph& graph) {
  std::vector<View> views;
  views.reserve(graph.size());
  for (uint32_t id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.nodes()[id];
    View view{ir::Value{id}, {}};
    if (is_view_op(node.op)) {
      const View& operand = views[node.operands[0].id];
      if (auto access = apply_view(graph, ir::Value{id}, operand.access)) {
        views.push_back({operand.source, *std::move(access)});
        continue;
      }
    }
    view.access.strides = dense_strides(node.type.shape);
    if (node.op == Op::Input && !node.type.strides.empty())
      for (size_t i = 0; i < node.type.shape.size(); ++i)
        if (!node.type.shape[i].is(1)) view.access.strides[i] = node.type.strides[i];
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace attacca::fuse
