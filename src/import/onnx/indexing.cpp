// Ops that read elements at indices, as a gather from the flattened tensor, and those that count
// along an axis.
#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "ir/graph/size_functions.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

Status check_index(Node& node, Value index) {
  if (node.dtype(index) == DType::S32 || node.dtype(index) == DType::S64) return {};
  return fail(fmt::format("indices of {}", ir::name(node.dtype(index))), {}, "cast them to int64");
}

Dim count_from(const Shape& shape, size_t axis) {
  return ir::element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end()));
}

// index * stride, a negative index counted from the end. An index outside the axis becomes `total`,
// which lies outside the flattened tensor: the gather then reports it.
Expr place(Node& node, const Expr& index, const Dim& extent, const Dim& stride, const Dim& total) {
  const Expr size = number_of(node, extent);
  const Expr wrapped = where(index < 0.0, index + size, index);
  const Expr outside = emit(
      Op::Or, std::vector<Expr>{wrapped < 0.0, emit(Op::Ge, std::vector<Expr>{wrapped, size})});
  const Expr at = stride.is(1) ? wrapped : wrapped * number_of(node, stride);
  return where(outside, number_of(node, total), at);
}

// Where elements lie in a tensor whose first axes, up to `axis`, are flattened into one.
struct Places {
  Expr at;
  size_t axis;
};

Shape flattened_up_to(const Shape& shape, size_t axis) {
  const auto split = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  Shape flat(split, shape.end());
  flat.insert(flat.begin(), ir::element_count(Shape(shape.begin(), split)));
  return flat;
}

// What lies at these places of x.
Expr gather_flat(Node& node, Value x, const Places& places) {
  const Expr flat = reshape(node.expr(x), flattened_up_to(node.shape(x), places.axis));
  return emit(Op::Gather, std::vector<Expr>{flat, folded(places.at)}, ir::AxisAttrs{0});
}

// The sum of what lies before or at each element, in log2(extent) steps: y += y moved by 1, 2, 4...
Expr running_sum(const Expr& x, int64_t axis, int64_t extent, const Expr& zero) {
  Expr sum = x;
  for (int64_t step = 1; step < extent; step *= 2) {
    if (!sum.value) return sum;
    Shape border = sum.graph->type(*sum.value).shape;
    border[static_cast<size_t>(axis)] = step;
    sum = sum + concat({broadcast_to(zero, border), slice_axis(sum, axis, 0, extent - step)}, axis);
  }
  return sum;
}

// The sum of what lies before each element of an axis whose extent is a symbol: each element
// against each.
Expr sum_of_earlier(Node& node, const Expr& x, int64_t axis, const Shape& shape, const Expr& zero) {
  const auto rank = static_cast<int64_t>(shape.size());
  const Dim& extent = shape[static_cast<size_t>(axis)];
  Shape wide = shape;
  wide.insert(wide.begin() + axis, 1);
  const Expr before = emit(Op::Lt, std::vector<Expr>{counting(node, extent, rank + 1, axis + 1),
                                                     counting(node, extent, rank + 1, axis)});
  return reduce(Op::Sum, where(before, reshape(x, wide), zero), {axis + 1}, false);
}

// As running_sum for an extent that is a symbol: in blocks, to which the sums of the blocks before
// them are added.
Expr running_sum_of_symbol(Node& node, const Expr& x, int64_t axis, const Shape& shape,
                           const Expr& zero) {
  constexpr int64_t kBlock = 256;
  const auto at = static_cast<size_t>(axis);
  const Dim extent = shape[at], blocks = ir::floor_div(extent + (kBlock - 1), kBlock);
  Shape missing = shape, blocked = shape, padded = shape;
  missing[at] = blocks * kBlock - extent;
  padded[at] = blocks * kBlock;
  blocked[at] = blocks;
  blocked.insert(blocked.begin() + axis + 1, kBlock);
  const Expr within = running_sum(reshape(concat({x, broadcast_to(zero, missing)}, axis), blocked),
                                  axis + 1, kBlock, zero);
  Shape totals = blocked;
  totals[at + 1] = 1;
  const Expr earlier =
      sum_of_earlier(node, slice_axis(within, axis + 1, kBlock - 1, kBlock), axis, totals, zero);
  return slice_axis(reshape(within + earlier, padded), axis, 0, extent);
}

Expr flipped(const Expr& x, int64_t axis, const Dim& extent, bool reverse) {
  return reverse ? slice_axis(x, axis, extent - 1, -1, -1) : x;
}

// Of indices into the first axes, which are their last axis.
Result<Places> places_nd(Node& node, Value x, int64_t batch) {
  ATTACCA_TRY(const Value indices, node.input(1));
  ATTACCA_TRY_VOID(check_index(node, indices));
  const Shape from = node.shape(x), shape = node.shape(indices);
  const auto depth = shape.empty() ? std::nullopt : shape.back().maybe_value();
  if (!depth || *depth < 1 || batch < 0 || batch >= node.rank(indices) ||
      *depth > node.rank(x) - batch)
    return fail(fmt::format("indices of shape {} with batch_dims={} into a tensor of shape {}",
                            ir::to_string(shape), batch, ir::to_string(from)));
  for (size_t axis = 0; axis < static_cast<size_t>(batch); ++axis)
    if (!(from[axis] == shape[axis]))
      return fail(fmt::format("the batch axis {} is {} of the data and {} of the indices", axis,
                              ir::to_string(from[axis]), ir::to_string(shape[axis])));
  const int64_t last = node.rank(indices) - 1;
  const auto inner = static_cast<size_t>(batch + *depth);
  const Shape outer(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(inner));
  const Shape chosen(shape.begin(), shape.end() - 1);
  const Dim total = ir::element_count(outer);
  std::optional<Expr> at;
  const auto add = [&](const Expr& term) { at = at ? *at + term : term; };
  for (size_t axis = 0; axis < inner; ++axis) {
    const Dim stride = count_from(outer, axis + 1);
    if (const auto own = static_cast<int64_t>(axis); own < batch) {
      add(counting(node, from[axis], last, own) * number_of(node, stride));
      continue;
    }
    const auto own = static_cast<int64_t>(axis) - batch;
    const Expr index = reshape(slice_axis(node.expr(indices), last, own, own + 1), chosen);
    add(place(node, cast(index, DType::S64), from[axis], stride, total));
  }
  return Places{broadcast_to(*at, chosen), inner};
}

// Of one index an element along an axis.
Result<Places> places_along(Node& node, Value x, Value indices, int64_t axis) {
  ATTACCA_TRY_VOID(check_index(node, indices));
  const Shape from = node.shape(x), shape = node.shape(indices);
  if (from.size() != shape.size())
    return fail(fmt::format("indices of shape {} into a tensor of shape {}", ir::to_string(shape),
                            ir::to_string(from)));
  const auto rank = node.rank(x);
  const Dim total = ir::element_count(from);
  Expr at = place(node, cast(node.expr(indices), DType::S64), from[static_cast<size_t>(axis)],
                  count_from(from, static_cast<size_t>(axis) + 1), total);
  for (int64_t other = 0; other < rank; ++other) {
    const auto i = static_cast<size_t>(other);
    const Dim slack = from[i] - shape[i];
    if (other == axis || shape[i].is(1)) continue;
    if (slack.is_static() ? slack.value() < 0 : true)
      return fail(fmt::format("axis {} is {} of the indices and {} of the data", other,
                              ir::to_string(shape[i]), ir::to_string(from[i])),
                  {}, "the indices must not be longer than the data");
    at = at + counting(node, shape[i], rank, other) * number_of(node, count_from(from, i + 1));
  }
  return Places{at, from.size()};
}

Result<Places> places_of_elements(Node& node, Value x) {
  ATTACCA_TRY(const Value indices, node.input(1));
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", 0), node.rank(x)));
  return places_along(node, x, indices, axis);
}

struct ScatterReduction {
  std::string_view name;
  Op among;                       // the updates of a place
  Op with;                        // them and what is there
  std::optional<double> neutral;  // none: what is there
};
constexpr ScatterReduction kScatterReductions[] = {
    {"add", Op::Sum, Op::Add, 0},
    {"mul", Op::Sum, Op::Mul, 1},  // by product_along
    {"max", Op::ReduceMax, Op::Max, std::nullopt},
    {"min", Op::ReduceMin, Op::Min, std::nullopt},
};

// x [R, I] with the updates [U, I] added to the rows at [U, I or 1].
Expr scatter_added(Node& node, const Expr& x, const Expr& at, const Expr& updates) {
  const Shape rows = node.shape(*x.value), given = node.shape(*updates.value);
  const auto added = [](const Expr& to, const Expr& index, const Expr& rows_of_updates) {
    return emit(Op::ScatterAdd, std::vector<Expr>{to, index, rows_of_updates});
  };
  if (node.shape(*at.value)[1].is(1)) return added(x, reshape(at, {given[0]}), updates);
  const Expr place = at * number_of(node, rows[1]) + counting(node, rows[1], 2, 1);
  const Dim count = given[0] * given[1];
  return reshape(
      added(reshape(x, {rows[0] * rows[1]}), reshape(place, {count}), reshape(updates, {count})),
      rows);
}

// x [R, I] reduced with the updates [U, I] whose place `at` [U, I or 1] is a row of x. But for
// sums, each row is compared with all places. One outside x equals no row: a gather reports it.
Result<Expr> scatter_reduced(Node& node, const Expr& x, const Expr& at, const Expr& updates) {
  constexpr int64_t kMostPairs = int64_t{1} << 28;
  const std::string wanted = node.text("reduction", "none");
  const auto* found = std::find_if(std::begin(kScatterReductions), std::end(kScatterReductions),
                                   [&](const auto& each) { return each.name == wanted; });
  if (found == std::end(kScatterReductions))
    return fail(fmt::format("reduction={} is not supported", wanted), {},
                "use none, add, mul, max or min");
  for (const Expr* each : {&x, &at, &updates})
    if (!each->value) return tl::make_unexpected(each->value.error());
  const Shape rows = node.shape(*x.value), given = node.shape(*updates.value);
  if (given[0].is(0)) return x;
  if (found->with == Op::Add) return scatter_added(node, x, at, updates);
  const Dim pairs = rows[0] * given[0] * rows[1];
  if (pairs.overflowed() || pairs.maybe_value().value_or(0) > kMostPairs)
    return fail(fmt::format("reduction={} of {} updates at {} places", wanted,
                            ir::to_string(given[0]), ir::to_string(rows[0])),
                {}, "run the model through ONNX Runtime");
  const Expr there = reshape(x, {rows[0], 1, rows[1]});
  const Expr checked =
      emit(Op::Gather, std::vector<Expr>{counting(node, rows[0], 1, 0), at}, ir::AxisAttrs{0});
  const Expr hit = emit(Op::Eq, {reshape(checked, {1, given[0], node.shape(*at.value)[1]}),
                                 counting(node, rows[0], 3, 0)});
  const Expr neutral = found->neutral ? scalar_like(x, *found->neutral) : there;
  const Expr chosen = where(hit, reshape(updates, {1, given[0], given[1]}), neutral);
  const Expr reduced = found->with == Op::Mul ? reshape(product_along(node, chosen, 1), rows)
                                              : reduce(found->among, chosen, {1}, false);
  return emit(found->with, {x, reduced});
}

bool is_reduced(Node& node) {
  return node.text("reduction", "none") != "none";
}

// x with the updates at these places.
Result<Outputs> scatter_flat(Node& node, Value x, const Places& places) {
  ATTACCA_TRY(const Value at, folded(places.at).value);
  const Shape from = node.shape(x), flat = flattened_up_to(from, places.axis);
  Shape updates = node.shape(at);
  updates.insert(updates.end(), flat.begin() + 1, flat.end());
  ATTACCA_TRY(const Value given, node.input(2));
  if (!(node.shape(given) == updates))
    return fail(fmt::format("updates of shape {}, wanted {}", ir::to_string(node.shape(given)),
                            ir::to_string(updates)));
  if (is_reduced(node)) {
    const Dim count = ir::element_count(node.shape(at)), inner = count_from(flat, 1);
    ATTACCA_TRY(const Expr reduced, scatter_reduced(node, reshape(node.expr(x), {flat[0], inner}),
                                                    reshape(node.expr(at), {count, 1}),
                                                    reshape(node.expr(given), {count, inner})));
    return reshape(reduced, from);
  }
  return reshape(emit(Op::Scatter, std::vector<Expr>{reshape(node.expr(x), flat), node.expr(at),
                                                     node.expr(given)}),
                 from);
}

}  // namespace

Result<Outputs> gather_nd(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const Places places, places_nd(node, x, node.integer("batch_dims", 0)));
  return gather_flat(node, x, places);
}

Result<Outputs> gather_elements(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const Places places, places_of_elements(node, x));
  return gather_flat(node, x, places);
}

Result<Outputs> scatter_nd(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const Places places, places_nd(node, x, 0));
  return scatter_flat(node, x, places);
}

// Updates meet along the axis alone, if the other axes are whole.
Result<std::optional<Expr>> scatter_along(Node& node, Value x) {
  ATTACCA_TRY(const Value indices, node.input(1));
  ATTACCA_TRY(const Value updates, node.input(2));
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", 0), node.rank(x)));
  ATTACCA_TRY_VOID(check_index(node, indices));
  const Shape from = node.shape(x), shape = node.shape(indices);
  if (shape.size() != from.size() || !(node.shape(updates) == shape)) return std::optional<Expr>();
  std::vector<int64_t> order = {axis}, back(from.size());
  Dim inner = 1;
  for (int64_t i = 0; i < node.rank(x); ++i) {
    if (i == axis) continue;
    const auto other = static_cast<size_t>(i);
    if (!(shape[other] == from[other])) return std::optional<Expr>();
    order.push_back(i);
    inner = inner * from[other];
  }
  Shape moved;
  for (size_t i = 0; i < order.size(); ++i) {
    moved.push_back(from[static_cast<size_t>(order[i])]);
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  const Dim rows = from[static_cast<size_t>(axis)], count = shape[static_cast<size_t>(axis)];
  const auto in_front = [&](const Expr& each, const Dim& extent) {
    return reshape(permute(each, order), {extent, inner});
  };
  const Expr at = place(node, cast(node.expr(indices), DType::S64), rows, 1, rows);
  ATTACCA_TRY(const Expr reduced,
              scatter_reduced(node, in_front(node.expr(x), rows), in_front(at, count),
                              in_front(node.expr(updates), count)));
  return std::optional(permute(reshape(reduced, moved), back));
}

Result<Outputs> scatter_elements(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  if (is_reduced(node)) {
    ATTACCA_TRY(const auto along, scatter_along(node, x));
    if (along) return *along;
  }
  ATTACCA_TRY(const Places places, places_of_elements(node, x));
  return scatter_flat(node, x, places);
}

// A cache with the rows of an update from each batch's place on, along an axis; in a circular one
// they go on at the beginning.
Result<Outputs> tensor_scatter(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const Value update, node.input(1));
  const Shape shape = node.shape(x);
  const int64_t rank = node.rank(x);
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", -2), rank));
  const std::string mode = node.text("mode", "linear");
  if (axis == 0 || (mode != "linear" && mode != "circular"))
    return fail(fmt::format("axis={} and mode={}", axis, mode), {},
                "the first axis is of batches; use linear or circular");
  const auto at = static_cast<size_t>(axis);
  Shape wanted = shape;
  const Dim written = node.rank(update) == rank ? node.shape(update)[at] : Dim(0);
  wanted[at] = written;
  if (!(node.shape(update) == wanted) || written.is(0))
    return fail(fmt::format("an update of shape {} of a cache of shape {}",
                            ir::to_string(node.shape(update)), ir::to_string(shape)));
  Expr place = counting(node, shape[at], rank, axis);  // in the update
  if (node.has(2)) {
    ATTACCA_TRY(const Value first, node.input(2));
    ATTACCA_TRY_VOID(check_index(node, first));
    if (!(node.shape(first) == Shape{shape[0]}))
      return fail(fmt::format("write_indices of shape {}, wanted [{}]",
                              ir::to_string(node.shape(first)), ir::to_string(shape[0])));
    Shape batches(static_cast<size_t>(rank), 1);
    batches[0] = shape[0];
    place = place - reshape(cast(node.expr(first), DType::S64), batches);
    if (mode == "circular") place = where(place < 0.0, place + number_of(node, shape[at]), place);
  }
  const Expr inside =
      emit(Op::And, std::vector<Expr>{emit(Op::Ge, place, 0.0), place < number_of(node, written)});
  Expr flat = where(inside, place, scalar_like(place, 0));
  for (int64_t other = 0; other < axis; ++other) {
    const auto i = static_cast<size_t>(other);
    const Shape inner(wanted.begin() + other + 1, wanted.begin() + axis + 1);
    flat = flat + counting(node, shape[i], rank, other) * number_of(node, ir::element_count(inner));
  }
  Shape whole(shape.begin(), shape.begin() + axis + 1), ones = whole;
  ones.resize(static_cast<size_t>(rank), 1);
  const Expr index = reshape(broadcast_to(flat, ones), whole);
  return where(inside, gather_flat(node, update, {index, at + 1}), node.expr(x));
}

// Of equal elements the first ones are taken, in their order.
Result<Outputs> top_k(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", -1), node.rank(x)));
  Dim count = node.integer("k", 0);
  if (node.opset() >= 10) {
    ATTACCA_TRY(const auto given, node.dims(1, "k"));
    if (given.size() != 1) return fail("k is one number");
    count = given[0];
  }
  const Dim extent = node.shape(x)[static_cast<size_t>(axis)], rest = extent - count;
  if ((count.is_static() && count.value() < 0) || (rest.is_static() && rest.value() < 0))
    return fail(fmt::format("the {} largest of {}", ir::to_string(count), ir::to_string(extent)));
  const bool largest = node.integer("largest", 1) != 0;
  const Expr sorted =
      emit(Op::Argsort, std::vector<Expr>{flipped(node.expr(x), axis, extent, largest)},
           ir::AxisAttrs{axis});
  Expr places = sorted;
  if (largest) places = number_of(node, extent - 1) - flipped(sorted, axis, extent, true);
  places = slice_axis(places, axis, 0, count);
  ATTACCA_TRY(const Value chosen, places.value);
  ATTACCA_TRY(const Places at, places_along(node, x, chosen, axis));
  ATTACCA_TRY(const Value values, gather_flat(node, x, at).value);
  return std::vector<Value>{values, chosen};
}

Result<Outputs> cum_sum(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const auto given, node.integers(1, "the axis"));
  if (given.size() != 1) return fail("the axis is one number");
  ATTACCA_TRY(const int64_t axis, normalise_axis(given[0], node.rank(x)));
  const Shape shape = node.shape(x);
  const Dim& extent = shape[static_cast<size_t>(axis)];
  if (extent.is(0)) return x;
  const bool reverse = node.integer("reverse", 0) != 0;
  const Expr zero = node.expr(node.graph().literal(0, node.dtype(x)));
  const Expr in = flipped(node.expr(x), axis, extent, reverse);
  Expr sum = extent.is_static() ? running_sum(in, axis, extent.value(), zero)
                                : running_sum_of_symbol(node, in, axis, shape, zero);
  if (node.integer("exclusive", 0) != 0) {
    Shape border = shape;
    border[static_cast<size_t>(axis)] = 1;
    sum = slice_axis(concat({broadcast_to(zero, border), sum}, axis), axis, 0, extent);
  }
  return flipped(sum, axis, extent, reverse);
}

// The place of the extremum: the first of equals, or the last. A NaN counts as one, as in NumPy.
Result<Outputs> arg_extremum(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", 0), node.rank(x)));
  const Dim extent = node.shape(x)[static_cast<size_t>(axis)];
  if (extent.is(0)) return fail("the extremum of an axis of 0 elements has no place");
  const bool narrow = !ir::is_float(node.dtype(x)) && ir::size_of(node.dtype(x)) < 4;
  const Expr in = narrow ? cast(node.expr(x), DType::S32) : node.expr(x);
  const Expr best = reduce(node.op(), in, {axis}, true);
  Expr found = emit(Op::Eq, std::vector<Expr>{in, best});
  if (ir::is_float(node.dtype(x)))
    found = emit(Op::Or, std::vector<Expr>{found, emit(Op::Ne, std::vector<Expr>{in, in})});
  const bool last = node.integer("select_last_index", 0) != 0;
  const Expr none =
      last ? node.expr(node.graph().literal(-1, DType::S64)) : number_of(node, extent);
  const Expr places = where(found, counting(node, extent, node.rank(x), axis), none);
  return reduce(last ? Op::ReduceMax : Op::ReduceMin, places, {axis},
                node.integer("keepdims", 1) != 0);
}

}  // namespace attacca::import
