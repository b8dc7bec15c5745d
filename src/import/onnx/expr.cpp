#include "import/onnx/expr.hpp"

#include <numeric>

#include "fmt/format.h"

namespace attacca::import {

using ir::Attrs;
using ir::Op;

Expr emit(Op op, const std::vector<Expr>& operands, Attrs attrs) {
  std::vector<ir::Value> values;
  for (const Expr& operand : operands) {
    if (!operand.value) return operand;
    values.push_back(*operand.value);
  }
  ir::Graph& graph = *operands[0].graph;
  return {&graph, graph.add(op, std::move(values), std::move(attrs))};
}

Expr emit(Op op, const Expr& x, double y) {
  return emit(op, std::vector<Expr>{x, scalar_like(x, y)});
}

Expr emit(Op op, double x, const Expr& y) {
  return emit(op, std::vector<Expr>{scalar_like(y, x), y});
}

Expr scalar_like(const Expr& x, double value) {
  if (!x.value) return x;
  const ir::DType dtype = x.graph->type(*x.value).dtype;
  if (!ir::is_float(dtype) && static_cast<double>(ir::to_integer(dtype, value)) != value)
    return {x.graph,
            fail(fmt::format("the op needs floats, got {}", ir::name(dtype)), {}, "insert a Cast")};
  return {x.graph, x.graph->literal(value, dtype)};
}

Expr where(const Expr& condition, const Expr& x, const Expr& y) {
  return emit(Op::Where, std::vector<Expr>{condition, x, y});
}

Expr cast(const Expr& x, ir::DType dtype, bool saturate) {
  if (!x.value || x.graph->type(*x.value).dtype == dtype) return x;
  return {x.graph, ir::cast(*x.graph, *x.value, dtype, saturate)};
}

Expr reduce(Op op, const Expr& x, std::vector<int64_t> axes, bool keepdims) {
  return emit(op, std::vector<Expr>{x}, ir::ReductionAttrs{std::move(axes), keepdims});
}

Expr matmul(const Expr& a, const Expr& b) {
  return emit(Op::MatMul, std::vector<Expr>{a, b});
}

Expr reshape(const Expr& x, ir::Shape shape) {
  if (!x.value || x.graph->type(*x.value).shape == shape) return x;
  return emit(Op::Reshape, std::vector<Expr>{x}, ir::ShapeAttrs{std::move(shape)});
}

Expr broadcast_to(const Expr& x, ir::Shape shape) {
  if (!x.value || x.graph->type(*x.value).shape == shape) return x;
  for (const ir::Dim& dim : shape)
    if (dim.is_static() && dim.value() < 0)
      return {x.graph, fail(fmt::format("the negative dimension {}", dim.value()))};
  return emit(Op::Broadcast, std::vector<Expr>{x}, ir::ShapeAttrs{std::move(shape)});
}

Expr permute(const Expr& x, const std::vector<int64_t>& axes) {
  std::vector<int64_t> identity(axes.size());
  std::iota(identity.begin(), identity.end(), 0);
  if (axes == identity) return x;
  if (axes.size() >= 2) std::swap(identity[axes.size() - 1], identity[axes.size() - 2]);
  if (axes == identity && axes.size() >= 2) return emit(Op::Transpose, std::vector<Expr>{x});
  return emit(Op::Permute, std::vector<Expr>{x}, ir::PermuteAttrs{axes});
}

Expr slice_axis(const Expr& x, int64_t axis, ir::Dim begin, ir::Dim end, int64_t step) {
  if (!x.value) return x;
  const ir::Shape& shape = x.graph->type(*x.value).shape;
  if (axis < 0 || axis >= static_cast<int64_t>(shape.size()))
    return {x.graph,
            fail(fmt::format("a tensor of shape {} has no axis {}", ir::to_string(shape), axis))};
  ir::SliceAttrs attrs;
  for (const ir::Dim& extent : shape) attrs.ranges.push_back({0, extent, 1});
  attrs.ranges[static_cast<size_t>(axis)] = {std::move(begin), std::move(end), step};
  return emit(Op::Slice, std::vector<Expr>{x}, std::move(attrs));
}

Expr emit_range(ir::Graph& graph, const ir::Dim& begin, const ir::Dim& end) {
  return {&graph, graph.add(Op::Arange, {}, ir::ShapeAttrs{{begin, end}})};
}

Expr concat(const std::vector<Expr>& parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  const auto limit = static_cast<size_t>(ir::info(Op::Concat).max_arity);
  if (parts.size() <= limit) return emit(Op::Concat, parts, ir::AxisAttrs{axis});
  // Wider than the op allows: a tree of concatenations.
  std::vector<Expr> groups;
  for (size_t at = 0; at < parts.size(); at += limit)
    groups.push_back(
        concat({parts.begin() + static_cast<std::ptrdiff_t>(at),
                parts.begin() + static_cast<std::ptrdiff_t>(std::min(at + limit, parts.size()))},
               axis));
  return concat(groups, axis);
}

}  // namespace attacca::import
