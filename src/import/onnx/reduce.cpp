// Reductions and softmax.
#include <algorithm>
#include <limits>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

struct Reduction {
  Expr x;
  std::vector<int64_t> axes;
  bool keepdims;
  bool nothing;  // noop_with_empty_axes: elementwise parts still apply
};

// Axes from the attribute or, in later opsets, from input 1.
Result<Reduction> read_reduction(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  Reduction r{node.expr(x), {}, node.integer("keepdims", 1) != 0, false};
  if (node.has(1)) {
    ATTACCA_TRY(r.axes, node.integers(1, "axes"));
  } else if (const auto listed = node.integer_list("axes")) {
    r.axes = *listed;
  }
  if (r.axes.empty()) {
    r.nothing = node.integer("noop_with_empty_axes", 0) != 0;
    r.axes = all_axes(node.rank(x));
  }
  ATTACCA_TRY(r.axes, normalise_axes(std::move(r.axes), node.rank(x)));
  return r;
}

Expr over(const Reduction& r, Op op, const Expr& x) {
  if (r.nothing || !x.value) return x;
  const DType dtype = x.graph->type(*x.value).dtype;
  // 8-bit extremes are computed in s32. Without elements they are the end of the range.
  if (ir::is_byte(dtype))
    return cast(reduce(op, cast(x, DType::S32), r.axes, r.keepdims), dtype, true);
  if (dtype == DType::Bool) return reduce(op, cast(x, DType::S32), r.axes, r.keepdims) > 0.0;
  return reduce(op, x, r.axes, r.keepdims);
}

Expr softmax(Node& node, const Expr& x, int64_t axis) {
  if (!x.value) return x;
  return {&node.graph(), ir::softmax(node.graph(), *x.value, axis)};
}

Expr log_softmax(const Expr& x, int64_t axis) {
  const Expr shifted = x - reduce(Op::ReduceMax, x, {axis}, true);
  return shifted - emit(Op::Log, reduce(Op::Sum, emit(Op::Exp, shifted), {axis}, true));
}

using Along = Expr (*)(Node&, const Expr&, int64_t);

Expr log_softmax_of(Node&, const Expr& x, int64_t axis) {
  return log_softmax(x, axis);
}

// 1 at the first largest element, else 0.
Expr hardmax_of(Node& node, const Expr& x, int64_t axis) {
  if (!x.value) return x;
  const Shape& shape = x.graph->type(*x.value).shape;
  const Dim extent = shape[static_cast<size_t>(axis)];
  const Expr place = counting(node, extent, static_cast<int64_t>(shape.size()), axis);
  const Expr largest = emit(Op::Eq, {x, reduce(Op::ReduceMax, x, {axis}, true)});
  const Expr first =
      reduce(Op::ReduceMin, where(largest, place, number_of(node, extent)), {axis}, true);
  return where(emit(Op::Eq, {place, first}), scalar_like(x, 1), scalar_like(x, 0));
}

Result<Outputs> along_axis(Node& node, Along function) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", -1), node.rank(x)));
  return function(node, node.expr(x), axis);
}

Result<Outputs> flattened_from(Node& node, Along function) {
  ATTACCA_TRY(const Value x, node.input(0));
  const int64_t rank = node.rank(x);
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", 1), rank));
  if (axis == rank - 1) return function(node, node.expr(x), axis);
  const Shape shape = node.shape(x);
  return reshape(function(node, reshape(node.expr(x), flattened(shape, axis)), 1), shape);
}

// The product along an axis whose extent is a symbol: each element takes in the one 1, 2, 4 ...
// places behind it, and the first one is the product. A further 1 stands at the end.
Expr product_along_symbol(Node& node, const Expr& x, int64_t axis, Shape shape) {
  constexpr int64_t kLargest = int64_t{1} << 31;
  const auto rank = static_cast<int64_t>(shape.size());
  const Dim extent = shape[static_cast<size_t>(axis)] + 1;
  shape[static_cast<size_t>(axis)] = 1;
  const Expr one = scalar_like(x, 1);
  Expr total = concat({x, broadcast_to(one, shape)}, axis);
  const Expr place = counting(node, extent, 1, 0), end = number_of(node, extent);
  for (int64_t step = 1; step < kLargest; step *= 2) {
    const Expr behind = place + static_cast<double>(step), inside = behind < end;
    const Expr other = emit(Op::Gather, {total, where(inside, behind, scalar_like(behind, 0))},
                            ir::AxisAttrs{axis});
    Shape along(static_cast<size_t>(rank), 1);
    along[static_cast<size_t>(axis)] = extent;
    total = total * where(reshape(inside, along), other, one);
  }
  return slice_axis(total, axis, 0, 1);
}

// x where it is finite, else 0.
Expr finite_or_zero(const Expr& x) {
  return where(emit(Op::Abs, x) < std::numeric_limits<double>::infinity(), x, scalar_like(x, 0.0));
}

}  // namespace

Expr product_along(Node& node, const Expr& x, int64_t axis) {
  if (!x.value) return x;
  Shape shape = x.graph->type(*x.value).shape;
  Dim& along = shape[static_cast<size_t>(axis)];
  const auto extent = along.maybe_value();
  if (!extent) return product_along_symbol(node, x, axis, shape);
  if (*extent == 0) {
    along = 1;
    return broadcast_to(scalar_like(x, 1), shape);
  }
  Expr total = x;
  for (int64_t left = *extent; left > 1;) {
    const int64_t half = left / 2;
    Expr joined = slice_axis(total, axis, 0, half) * slice_axis(total, axis, half, 2 * half);
    if (left % 2 != 0) {
      // If their number is odd, the last one joins the last pair.
      const Expr odd = slice_axis(total, axis, left - 1, left);
      joined = half == 1 ? joined * odd
                         : concat({slice_axis(joined, axis, 0, half - 1),
                                   slice_axis(joined, axis, half - 1, half) * odd},
                                  axis);
    }
    total = joined;
    left = half;
  }
  return total;
}

Result<Outputs> reduction(Node& node) {
  ATTACCA_TRY(const Reduction r, read_reduction(node));
  return over(r, node.op(), r.x);
}

// The IR has no such reduction: makes a tree of products.
Result<Outputs> reduce_prod(Node& node) {
  ATTACCA_TRY(const Reduction r, read_reduction(node));
  if (r.nothing || !r.x.value) return r.x;
  // Partial products of 16-bit floats may leave their range even if the result does not.
  const DType dtype = node.dtype(*r.x.value);
  Expr total = ir::is_half(dtype) ? cast(r.x, DType::F32) : r.x;
  for (const int64_t axis : r.axes) total = product_along(node, total, axis);
  total = cast(total, dtype);
  ATTACCA_TRY(const Value kept, total.value);
  if (r.keepdims) return kept;
  Shape shape;
  for (int64_t axis = 0; axis < node.rank(kept); ++axis)
    if (!std::binary_search(r.axes.begin(), r.axes.end(), axis))
      shape.push_back(node.shape(kept)[static_cast<size_t>(axis)]);
  return reshape(total, shape);
}

Result<Outputs> reduce_l1(Node& node) {
  ATTACCA_TRY(const Reduction r, read_reduction(node));
  return over(r, Op::Sum, emit(Op::Abs, r.x));
}

Result<Outputs> reduce_l2(Node& node) {
  ATTACCA_TRY(const Reduction r, read_reduction(node));
  return emit(Op::Sqrt, over(r, Op::Sum, emit(Op::Square, r.x)));
}

Result<Outputs> reduce_sum_square(Node& node) {
  ATTACCA_TRY(const Reduction r, read_reduction(node));
  return over(r, Op::Sum, emit(Op::Square, r.x));
}

Result<Outputs> reduce_log_sum(Node& node) {
  ATTACCA_TRY(const Reduction r, read_reduction(node));
  return emit(Op::Log, over(r, Op::Sum, r.x));
}

// Shifted by the largest element, so that exp does not overflow; not by an infinity, whose
// difference from itself is NaN.
Result<Outputs> reduce_log_sum_exp(Node& node) {
  ATTACCA_TRY(Reduction r, read_reduction(node));
  if (r.nothing) return r.x;
  const Expr highest = finite_or_zero(reduce(Op::ReduceMax, r.x, r.axes, true));
  const Expr total = reduce(Op::Sum, emit(Op::Exp, r.x - highest), r.axes, true);
  const Expr kept = emit(Op::Log, total) + highest;
  if (r.keepdims || !kept.value) return kept;
  ATTACCA_TRY(const Value plain, reduce(Op::ReduceMax, r.x, r.axes, false).value);
  return reshape(kept, node.shape(plain));
}

Result<Outputs> softmax_axis(Node& node) {
  return along_axis(node, softmax);
}
Result<Outputs> softmax_flat(Node& node) {
  return flattened_from(node, softmax);
}
Result<Outputs> hardmax_axis(Node& node) {
  return along_axis(node, hardmax_of);
}
Result<Outputs> hardmax_flat(Node& node) {
  return flattened_from(node, hardmax_of);
}
Result<Outputs> log_softmax_axis(Node& node) {
  return along_axis(node, log_softmax_of);
}
Result<Outputs> log_softmax_flat(Node& node) {
  return flattened_from(node, log_softmax_of);
}

}  // namespace attacca::import
