// Ops that only move elements.
#include <algorithm>
#include <limits>
#include <numeric>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "import/onnx/ops.hpp"
#include "ir/graph/size_functions.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

// axes= until opset 12, an input since; nullopt where neither is given.
Result<std::optional<std::vector<int64_t>>> optional_axes(Node& node, size_t input) {
  if (node.has(input)) {
    ATTACCA_TRY(auto axes, node.integers(input, "axes"));
    return std::optional(std::move(axes));
  }
  return node.integer_list("axes");
}

struct Bounds {
  std::vector<int64_t> axes, steps;
  std::vector<Dim> starts, ends;
};

// Where a bound that is never positive, such as -M, lies. It counts from the end, but for sizes of
// 0: x[-0:] is all of x.
Dim from_the_end(Node& node, const Dim& bound, const Dim& extent) {
  const Dim back = Dim(0) - bound;
  if (extent == back || ir::lower_bound(back).value_or(0) > 0 || !node.assumptions().allow_short)
    return extent - back;
  node.assumptions().met_short = true;
  return extent * ir::minimum(back, 1) - back;
}

// A bound of a slice backwards that is negative for some sizes, such as M - 1, for which it counts
// from the end. (Forwards a range that begins or ends there is an error when the sizes are given;
// backwards -1 would be the place before the first element.)
Dim wrapped(const Dim& bound, const Dim& extent) {
  const Dim inside = ir::minimum(ir::maximum(bound + 1, 0), 1);
  return bound + extent * (Dim(1) - inside);
}

// A slice's bound, clamped to low..high where that is known. If the extent is a symbol, a bound
// counts as inside, and the end of the range as the end; a plan checks that it is.
Dim clamp_bound(Node& node, const Dim& bound, const Dim& extent, const Dim& low, const Dim& high,
                bool forward) {
  Dim at = bound;
  if (const auto fixed = bound.maybe_value()) {
    // Exporters write INT32_MAX or INT64_MAX for the end, and their negatives for the beginning.
    constexpr int64_t kFar = std::numeric_limits<int32_t>::max() - 1;
    if (*fixed >= kFar) return high;
    if (*fixed <= -kFar) return low;
    if (*fixed < 0) at = extent + bound;
  } else if (ir::upper_bound(bound).value_or(1) <= 0) {
    at = from_the_end(node, bound, extent);
  } else if (!forward && ir::lower_bound(bound).value_or(-1) < 0) {
    at = wrapped(bound, extent);
  }
  const Dim above = high - at, below = at - low;
  if (below.is_static() && below.value() < 0) return low;
  if (above.is_static() && above.value() < 0) return high;
  return at;
}

// The same for an axis that may be shorter than the numbers by which it is sliced. Unless it may be
// empty, the first element and all others count as known to be there: x[:1] has 1, x[1:] one fewer
// than x.
void clamp_to_length(Node& node, ir::SliceRange& range, const Dim& extent) {
  if (!node.assumptions().allow_short) return;
  const bool forward = range.step > 0;
  const Dim last = forward ? extent : extent - 1;
  const auto clamped = [&](const Dim& at, int64_t low) {
    const bool one =
        forward && !node.assumptions().allow_empty && (at.is(1) || (at - extent).is(-1));
    return one ? at : ir::minimum(ir::maximum(at, low), last);
  };
  ir::SliceRange exact{clamped(range.begin, 0), clamped(range.end, forward ? 0 : -1), range.step};
  if (exact.begin == range.begin && exact.end == range.end) return;
  exact.end = forward ? ir::maximum(exact.begin, exact.end) : ir::minimum(exact.begin, exact.end);
  range = std::move(exact);
  node.assumptions().met_short = true;
}

Result<Outputs> slice_by(Node& node, const Bounds& bounds) {
  ATTACCA_TRY(const Value x, node.input(0));
  const Shape shape = node.shape(x);
  const size_t count = bounds.starts.size();
  if (bounds.ends.size() != count || bounds.axes.size() != count || bounds.steps.size() != count)
    return fail("starts, ends, axes and steps differ in length");
  ir::SliceAttrs attrs;
  for (const Dim& extent : shape) attrs.ranges.push_back({0, extent, 1});
  for (size_t i = 0; i < count; ++i) {
    ATTACCA_TRY(const int64_t axis, normalise_axis(bounds.axes[i], node.rank(x)));
    const Dim& extent = shape[static_cast<size_t>(axis)];
    const int64_t step = bounds.steps[i];
    constexpr int64_t kFarthest = int64_t{1} << 40;
    if (step == 0 || step > kFarthest || step < -kFarthest)
      return fail(fmt::format("a step of {}", step), {}, "use a step of 1 or more");
    // With a negative step, a start before the first element means the first element, unlike in
    // NumPy.
    const bool forward = step > 0;
    const Dim last = forward ? extent : extent - 1;
    const Dim first = forward || !extent.is(0) ? 0 : -1;
    ir::SliceRange range{clamp_bound(node, bounds.starts[i], extent, first, last, forward),
                         clamp_bound(node, bounds.ends[i], extent, forward ? 0 : -1, last, forward),
                         step};
    if (!forward && is_range_end(bounds.ends[i].maybe_value().value_or(0))) range.end = -1;
    if (!extent.is_static() && bounds.starts[i].is_static() && bounds.ends[i].is_static())
      clamp_to_length(node, range, extent);
    const Dim span = step > 0 ? range.end - range.begin : range.begin - range.end;
    if (span.is_static() && span.value() < 0) range.end = range.begin;
    attrs.ranges[static_cast<size_t>(axis)] = std::move(range);
  }
  ATTACCA_TRY(const Value sliced, node.graph().add(Op::Slice, {x}, std::move(attrs)));
  std::vector<Dim>& known = node.assumptions().of_slices;
  const Shape left = node.shape(sliced);
  for (size_t axis = 0; axis < left.size(); ++axis) {
    const Dim& extent = left[axis];
    if (extent.is_static() || extent == shape[axis]) continue;
    if (std::find(known.begin(), known.end(), extent) != known.end()) continue;
    if (ir::lower_bound(extent).value_or(-1) < 0) known.push_back(extent);
  }
  return sliced;
}

// The target of a Reshape: 0 copies the input's extent, -1 takes what is left, rounded up if it is
// not known to be whole.
Result<Shape> reshape_target(const Shape& from, std::vector<Dim> wanted, bool allow_zero) {
  std::optional<size_t> open;
  Dim product = 1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i].is(0) && !allow_zero) {
      if (i >= from.size())
        return fail(fmt::format("a 0 at axis {} copies from a tensor of rank {}", i, from.size()));
      wanted[i] = from[i];
    }
    if (wanted[i].is(-1)) {
      if (open) return fail("two dimensions are -1", {}, "leave at most one open");
      open = i;
    } else {
      product = product * wanted[i];
    }
  }
  if (!open) return wanted;
  const Dim count = ir::element_count(from);
  const bool fixed = count.is_static() && product.is_static();
  if (product.is(0) || (fixed && count.value() % product.value() != 0))
    return fail(fmt::format("{} elements do not divide by {}", ir::to_string(count),
                            ir::to_string(product)),
                {}, "export the model with fixed sizes there");
  wanted[*open] = ir::ceil_div(count, product);
  return wanted;
}

// 0 for sizes of symbols for which a and b are equal, else more than the extent: a slice from there
// on is an error when the sizes are given.
Dim beyond_if_unequal(const Dim& a, const Dim& b, const Dim& extent) {
  return ir::maximum(a - b, b - a) * (extent + 1);
}

// So many elements of x, in one axis, from a place on.
Expr flat_part(Node& node, Value x, const Dim& begin, const Dim& count) {
  const Dim has = ir::element_count(node.shape(x));
  return slice_axis(reshape(node.expr(x), {has}), 0, begin, begin + count);
}

// x in one axis of as many elements as the target has.
Expr flat_like(Node& node, Value x, const Shape& target) {
  const Dim has = ir::element_count(node.shape(x)), count = ir::element_count(target);
  return flat_part(node, x, beyond_if_unequal(has, count, has), count);
}

// A reshape for which leading extents of x and of the target that have different symbols count as
// equal; nullopt where x does not have as many elements then. An exporter may compute the length
// that a convolution leaves by other divisions.
std::optional<Expr> reshape_alike(Node& node, Value x, std::vector<Dim> wanted, bool allow_zero) {
  const Shape from = node.shape(x);
  const Dim count = ir::element_count(from);
  Dim begin = 0;
  for (size_t i = 0; i < std::min(from.size(), wanted.size()); ++i) {
    if (wanted[i] == from[i] || (wanted[i].is(0) && !allow_zero)) continue;
    if (wanted[i].is_static() || from[i].is_static()) break;
    begin = begin + beyond_if_unequal(from[i], wanted[i], count);
    wanted[i] = from[i];
  }
  if (begin.is(0)) return std::nullopt;
  const auto target = reshape_target(from, std::move(wanted), allow_zero);
  if (!target || !(ir::element_count(*target) == count)) return std::nullopt;
  node.assumptions().met_unequal = true;
  if (node.assumptions().allow_unequal) return std::nullopt;
  return reshape(flat_part(node, x, begin, count), *target);
}

Result<Outputs> reshape_to(Node& node, std::vector<Dim> wanted) {
  ATTACCA_TRY(const Value x, node.input(0));
  const bool allow_zero = node.integer("allowzero", 0) != 0;
  const auto target = reshape_target(node.shape(x), wanted, allow_zero);
  const Dim count = ir::element_count(node.shape(x));
  if (target && ir::element_count(*target) == count) return reshape(node.expr(x), *target);
  if (const auto alike = reshape_alike(node, x, std::move(wanted), allow_zero)) return *alike;
  if (!target) return tl::make_unexpected(target.error());
  const bool never = (ir::element_count(*target) - count).is_static();
  return reshape(never ? node.expr(x) : flat_like(node, x, *target), *target);
}

Result<std::vector<Dim>> split_sizes(Node& node, const Dim& extent) {
  if (node.has(1)) return node.dims(1, "split");
  if (const auto listed = node.integer_list("split"))
    return std::vector<Dim>(listed->begin(), listed->end());
  const auto parts = node.integer("num_outputs", static_cast<int64_t>(node.outputs()));
  if (parts < 1 || parts != static_cast<int64_t>(node.outputs()))
    return fail(fmt::format("cannot split {} into {} parts", ir::to_string(extent), parts));
  // The last part is the smaller one.
  if (!extent.is_static()) {
    std::vector<Dim> parts_sizes(static_cast<size_t>(parts), ir::ceil_div(extent, parts));
    if (node.opset() >= 18) parts_sizes.back() = extent - parts_sizes[0] * (parts - 1);
    return parts_sizes;
  }
  const int64_t total = extent.value(), size = total / parts + (total % parts != 0);
  std::vector<Dim> sizes(static_cast<size_t>(parts), size);
  const int64_t last = total - size * (parts - 1);
  sizes.back() = last;
  if (last < 0 || (node.opset() < 18 && total % parts != 0))
    return fail(fmt::format("cannot split {} into {} equal parts", total, parts));
  return sizes;
}

// The parts of a shape, which stay known; nullopt: not this case.
std::optional<std::vector<Entry>> known_parts(Node& node) {
  const auto whole = node.known(0);
  if (!whole || whole->scalar) return std::nullopt;
  const auto sizes = split_sizes(node, static_cast<int64_t>(whole->elements.size()));
  if (!sizes || sizes->size() != node.outputs()) return std::nullopt;
  std::vector<Entry> parts;
  auto next = whole->elements.begin();
  for (const Dim& size : *sizes) {
    const auto count = size.maybe_value();
    if (!count || *count < 0 || *count > whole->elements.end() - next) return std::nullopt;
    parts.emplace_back(Known{whole->dtype, {next, next + *count}, false});
    next += *count;
  }
  if (next != whole->elements.end()) return std::nullopt;
  return parts;
}

struct Block {
  Value x;
  Shape shape;
  Dim size;
};

Result<Block> block_of(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  const int64_t size = node.integer("blocksize", 0);
  if (node.rank(x) != 4 || size < 1) return fail("a 4-D tensor and blocksize >= 1 are wanted");
  return Block{x, node.shape(x), size};
}

}  // namespace

bool is_range_end(int64_t bound) {
  return bound == std::numeric_limits<int32_t>::max() ||
         bound == std::numeric_limits<int64_t>::max();
}

Shape flattened(const Shape& shape, int64_t axis) {
  return {ir::element_count(Shape(shape.begin(), shape.begin() + axis)),
          ir::element_count(Shape(shape.begin() + axis, shape.end()))};
}

Result<Outputs> gather(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const Value index, node.input(1));
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", 0), node.rank(x)));
  return node.graph().add(Op::Gather, {x, index}, ir::AxisAttrs{axis});
}

Result<Outputs> transpose(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  std::vector<int64_t> axes = all_axes(node.rank(x));
  std::reverse(axes.begin(), axes.end());
  const std::vector<int64_t> order = node.integer_list("perm").value_or(axes);
  if (!std::is_permutation(order.begin(), order.end(), axes.begin(), axes.end()))
    return fail(
        fmt::format("perm=[{}] of a tensor of rank {}", fmt::join(order, ", "), axes.size()), {},
        "name each axis from 0 on once");
  return permute(node.expr(x), order);
}

Result<Outputs> reshape_attribute(Node& node) {
  const auto listed = node.integer_list("shape").value_or(std::vector<int64_t>{});
  return reshape_to(node, {listed.begin(), listed.end()});
}

Result<Outputs> reshape_input(Node& node) {
  ATTACCA_TRY(std::vector<Dim> wanted, node.dims(1, "the shape"));
  return reshape_to(node, std::move(wanted));
}

Result<Outputs> flatten(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  const int64_t rank = node.rank(x), given = node.integer("axis", 1);
  if (given < -rank || given > rank)
    return fail(fmt::format("axis {} is out of range for rank {}", given, rank));
  return reshape(node.expr(x), flattened(node.shape(x), given < 0 ? given + rank : given));
}

Result<Outputs> squeeze(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const auto given, optional_axes(node, 1));
  const Shape shape = node.shape(x);
  std::vector<int64_t> axes;
  if (given) {
    ATTACCA_TRY(axes, normalise_axes(*given, node.rank(x)));
  }
  Shape target;
  for (int64_t axis = 0; axis < node.rank(x); ++axis) {
    const Dim& extent = shape[static_cast<size_t>(axis)];
    const bool named = std::binary_search(axes.begin(), axes.end(), axis);
    if (named && !extent.is(1))
      return fail(fmt::format("axis {} of {} is not 1", axis, ir::to_string(shape)));
    if (given ? !named : !extent.is(1)) target.push_back(extent);
  }
  return reshape(node.expr(x), target);
}

Result<Outputs> unsqueeze(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const auto given, optional_axes(node, 1));
  if (!given) return fail("axes are missing");
  const int64_t rank = node.rank(x) + static_cast<int64_t>(given->size());
  ATTACCA_TRY(const std::vector<int64_t> axes, normalise_axes(*given, rank));
  Shape target = node.shape(x);
  for (const int64_t axis : axes) target.insert(target.begin() + axis, 1);
  return reshape(node.expr(x), target);
}

Result<Outputs> expand(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const std::vector<Dim> wanted, node.dims(1, "the shape"));
  const auto target = ir::broadcast(node.shape(x), wanted);
  if (!target)
    return fail(fmt::format("{} does not expand to {}", ir::to_string(node.shape(x)),
                            ir::to_string(wanted)),
                {}, "extents must be equal or 1; export the model with a fixed size for a symbol");
  return broadcast_to(node.expr(x), *target);
}

// [d0, d1] -> [1, d0, 1, d1] -> [r0, d0, r1, d1] -> [r0*d0, r1*d1].
Result<Outputs> tile(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const std::vector<Dim> repeats, node.dims(1, "repeats"));
  const Shape shape = node.shape(x);
  if (repeats.size() != shape.size()) return fail("repeats differ in length from the rank");
  Shape apart, wide, joined;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (repeats[i].is_static() && repeats[i].value() < 0) return fail("a negative repeat");
    apart.insert(apart.end(), {Dim(1), shape[i]});
    wide.insert(wide.end(), {repeats[i], shape[i]});
    joined.push_back(repeats[i] * shape[i]);
  }
  return reshape(broadcast_to(reshape(node.expr(x), apart), wide), joined);
}

Expr of_extent(Node& node, const Expr& x, int64_t axis, const Dim& extent) {
  if (!x.value || axis >= node.rank(*x.value)) return x;
  const Dim has = node.shape(*x.value)[static_cast<size_t>(axis)];
  if ((has - extent).is_static()) return x;  // equal, or never
  node.assumptions().met_unequal = true;
  if (node.assumptions().allow_unequal) return x;
  const Dim begin = beyond_if_unequal(has, extent, has);
  return slice_axis(x, axis, begin, begin + extent);
}

Expr joined(Node& node, std::vector<Expr> parts, int64_t axis) {
  if (!parts[0].value) return parts[0];
  const Shape shape = node.shape(*parts[0].value);
  for (Expr& part : parts)
    for (size_t other = 0; other < shape.size(); ++other)
      if (const auto at = static_cast<int64_t>(other); at != axis)
        part.value = of_extent(node, part, at, shape[other]).value;
  return concat(parts, axis);
}

Result<Outputs> slice_attributes(Node& node) {
  const auto starts = node.integer_list("starts"), ends = node.integer_list("ends");
  if (!starts || !ends) return fail("starts or ends are missing");
  const auto count = static_cast<int64_t>(starts->size());
  return slice_by(node, {node.integer_list("axes").value_or(all_axes(count)),
                         std::vector<int64_t>(starts->size(), 1),
                         {starts->begin(), starts->end()},
                         {ends->begin(), ends->end()}});
}

Result<Outputs> slice_inputs(Node& node) {
  Bounds bounds;
  ATTACCA_TRY(bounds.starts, node.dims(1, "starts"));
  ATTACCA_TRY(bounds.ends, node.dims(2, "ends"));
  bounds.axes = all_axes(static_cast<int64_t>(bounds.starts.size()));
  bounds.steps.assign(bounds.starts.size(), 1);
  if (node.has(3)) {
    ATTACCA_TRY(bounds.axes, node.integers(3, "axes"));
  }
  if (node.has(4)) {
    ATTACCA_TRY(bounds.steps, node.integers(4, "steps"));
  }
  return slice_by(node, bounds);
}

Result<Outputs> concat_inputs(Node& node) {
  std::vector<Expr> parts;
  for (size_t i = 0; i < node.inputs(); ++i) parts.push_back(node.x(i));
  if (parts.empty()) return fail("the node has no inputs", {}, kInputsFix);
  ATTACCA_TRY(const Value first, parts[0].value);
  const int64_t given = node.integer("axis", node.opset() < 4 ? 1 : 0);
  ATTACCA_TRY(const int64_t axis, normalise_axis(given, node.rank(first)));
  return joined(node, std::move(parts), axis);
}

Result<Outputs> split(Node& node) {
  if (auto parts = known_parts(node)) return *std::move(parts);
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", 0), node.rank(x)));
  const Dim extent = node.shape(x)[static_cast<size_t>(axis)];
  ATTACCA_TRY(const std::vector<Dim> sizes, split_sizes(node, extent));
  if (sizes.size() != node.outputs())
    return fail(fmt::format("{} sizes for {} outputs", sizes.size(), node.outputs()));
  const Dim total = std::accumulate(sizes.begin(), sizes.end(), Dim(0));
  if ((total - extent).is_static() && !(total == extent))
    return fail(fmt::format("the sizes sum to {}, the axis is {}", ir::to_string(total),
                            ir::to_string(extent)));
  std::vector<Value> parts;
  Dim at = beyond_if_unequal(total, extent, extent);
  for (const Dim& size : sizes) {
    if (size.is_static() && size.value() < 0) return fail("a negative size");
    ATTACCA_TRY(const Value part, slice_axis(node.expr(x), axis, at, at + size).value);
    parts.push_back(part);
    at = at + size;
  }
  return parts;
}

Result<Outputs> depth_to_space(Node& node) {
  ATTACCA_TRY(const Block b, block_of(node));
  const auto depth = divide(b.shape[1], b.size * b.size);
  if (!depth) return fail("the channels do not divide by blocksize squared");
  const std::string mode = node.text("mode", "DCR");
  const bool column = mode == "CRD";
  if (!column && mode != "DCR")
    return fail(fmt::format("mode={} is not supported", mode), {}, "use DCR or CRD");
  const Shape apart = column ? Shape{b.shape[0], *depth, b.size, b.size, b.shape[2], b.shape[3]}
                             : Shape{b.shape[0], b.size, b.size, *depth, b.shape[2], b.shape[3]};
  const std::vector<int64_t> order =
      column ? std::vector<int64_t>{0, 1, 4, 2, 5, 3} : std::vector<int64_t>{0, 3, 4, 1, 5, 2};
  return reshape(permute(reshape(node.expr(b.x), apart), order),
                 {b.shape[0], *depth, b.shape[2] * b.size, b.shape[3] * b.size});
}

Result<Outputs> space_to_depth(Node& node) {
  ATTACCA_TRY(const Block b, block_of(node));
  Expr whole = node.expr(b.x);
  Dim parts[2];
  for (size_t i = 0; i < 2; ++i) {
    const Dim& extent = b.shape[2 + i];
    parts[i] = ir::ceil_div(extent, b.size);
    const Dim rounded = parts[i] * b.size;
    if ((rounded - extent).is_static() && !(rounded == extent))
      return fail("height and width do not divide by blocksize");
    // Outside x, which is an error when the sizes are given, if they do not divide.
    if (!(rounded == extent)) whole = slice_axis(whole, static_cast<int64_t>(2 + i), 0, rounded);
  }
  const Expr apart = reshape(whole, {b.shape[0], b.shape[1], parts[0], b.size, parts[1], b.size});
  return reshape(permute(apart, {0, 3, 5, 1, 2, 4}),
                 {b.shape[0], b.shape[1] * b.size * b.size, parts[0], parts[1]});
}

}  // namespace attacca::import
