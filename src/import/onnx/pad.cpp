// Pad in its modes.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "ir/graph/size_functions.hpp"

namespace attacca::import {

using ir::Dim;
using ir::Op;
using ir::Shape;
using ir::Value;

namespace {

// x with one value before and after an axis. Negative numbers, and what a symbol's sizes make
// negative, take elements away.
Result<Expr> padded_with(Node& node, const Expr& x, const Expr& value, int64_t axis,
                         const Dim& before, const Dim& after) {
  constexpr int64_t kLimit = int64_t{1} << 40;
  for (const Dim& pad : {before, after}) {
    const int64_t known = pad.maybe_value().value_or(0);
    if (pad.overflowed() || known > kLimit || known < -kLimit)
      return fail("a padding is too large");
  }
  ATTACCA_TRY(const Value current, x.value);
  Shape border = node.shape(current);
  Dim& extent = border[static_cast<size_t>(axis)];
  const Dim begin = Dim(0) - ir::minimum(before, 0), end = extent + ir::minimum(after, 0);
  std::vector<Expr> parts{begin.is(0) && end == extent ? x : slice_axis(x, axis, begin, end)};
  extent = ir::maximum(before, 0);
  if (!extent.is(0)) parts.insert(parts.begin(), broadcast_to(value, border));
  extent = ir::maximum(after, 0);
  if (!extent.is(0)) parts.push_back(broadcast_to(value, border));
  return concat(parts, axis);
}

// x with elements of its own before and after an axis, by their places: those at the ends (edge),
// those of the mirror image (reflect), or those at the other end (wrap).
Result<Expr> padded_with_own(Node& node, const Expr& x, int64_t axis, const Dim& dim_before,
                             const Dim& dim_after, const std::string& mode) {
  if (!dim_before.is_static() || !dim_after.is_static())
    return fail(fmt::format("pads of {} and {} with mode={}", ir::to_string(dim_before),
                            ir::to_string(dim_after), mode),
                {}, "give the sizes (--dim, in Python dims=)");
  const int64_t before = dim_before.value(), after = dim_after.value();
  ATTACCA_TRY(const Value value, x.value);
  const Dim extent = node.shape(value)[static_cast<size_t>(axis)];
  const int64_t most = std::max(before, after), least = most + (mode == "reflect" ? 1 : 0);
  const std::string what = fmt::format("pads of {} and {} with mode={}", before, after, mode);
  if (std::min(before, after) < 0)
    return fail(what, {}, "take elements away with Slice, and pad by 0 or more");
  if (most > std::numeric_limits<int32_t>::max())
    return fail(what, {}, "pad by less than 2147483648 elements");
  const auto fixed = extent.maybe_value();
  if (most > 0 && fixed && *fixed < (mode == "edge" ? 1 : least))
    return fail(fmt::format("mode={} pads {} beyond an axis of {}", mode, most, *fixed), {},
                "pad by less, or with mode=constant");
  const Expr last = number_of(node, extent - 1), size = number_of(node, extent);
  const Expr zero = number_of(node, 0);
  const Expr place = counting(node, extent + before + after, 1, 0) - static_cast<double>(before);
  Expr from = emit(Op::Min, {emit(Op::Max, {place, zero}), last});
  if (mode == "reflect") {
    const Expr right = emit(Op::Abs, place);
    from = where(right > last, last * 2.0 - right, right);
  } else if (mode == "wrap") {
    from = where(place < 0.0, place + size, where(place > last, place - size, place));
  }
  return emit(Op::Gather, std::vector<Expr>{x, folded(from)}, ir::AxisAttrs{axis});
}

}  // namespace

Result<Outputs> pad(Node& node) {
  const std::string mode = node.text("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    return fail(fmt::format("mode={} is not supported", mode), {},
                "use constant, edge, reflect or wrap");
  ATTACCA_TRY(const Value x, node.input(0));
  const int64_t rank = node.rank(x);
  std::vector<int64_t> axes = all_axes(rank);
  std::vector<Dim> pads;
  if (node.opset() >= 11) {
    ATTACCA_TRY(pads, node.dims(1, "pads"));
  } else {
    const char* name = node.opset() < 2 ? "paddings" : "pads";
    const auto listed = node.integer_list(name).value_or(std::vector<int64_t>{});
    pads.assign(listed.begin(), listed.end());
  }
  if (node.has(3)) {
    ATTACCA_TRY(axes, node.integers(3, "axes"));
  }
  if (pads.size() != 2 * axes.size()) return fail("pads has not two numbers an axis");
  Expr value = scalar_like(node.expr(x), node.opset() < 11 ? node.real("value", 0.0) : 0.0);
  if (node.has(2)) value = reshape(node.x(2), {});
  Expr result = node.expr(x);
  for (size_t i = 0; i < axes.size(); ++i) {
    ATTACCA_TRY(const int64_t axis, normalise_axis(axes[i], rank));
    const Dim &before = pads[i], &after = pads[i + axes.size()];
    ATTACCA_TRY(const Expr wider, mode == "constant"
                                      ? padded_with(node, result, value, axis, before, after)
                                      : padded_with_own(node, result, axis, before, after, mode));
    result.value = wider.value;
  }
  return result;
}

}  // namespace attacca::import
