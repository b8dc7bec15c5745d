#include "ir/text/compose.hpp"

#include <algorithm>
#include <limits>

#include "fmt/format.h"

namespace attacca::ir {
namespace {

Result<int64_t> axis_of(const Graph& graph, Value x, int64_t axis, std::string_view op) {
  return normalise_axis(axis, static_cast<int64_t>(graph.type(x).shape.size()), op);
}

// 16-bit and fp8 floats as f32, the rest as it is.
Result<Value> widened(Graph& graph, Value x) {
  const DType dtype = graph.type(x).dtype;
  return is_float(dtype) && info(dtype).bits < 32 ? cast(graph, x, DType::F32) : Result<Value>(x);
}

Result<Value> reduce(Graph& graph, Op op, Value x, int64_t axis) {
  return graph.add(op, {x}, ReductionAttrs{{axis}, true});
}

// rsqrt(mean(x * x) + eps) over the last axis.
Result<Value> inverse_rms(Graph& graph, Value x, double eps) {
  ATTACCA_TRY(const Value squares, graph.add(Op::Mul, {x, x}));
  ATTACCA_TRY(const Value mean, reduce(graph, Op::Mean, squares, -1));
  ATTACCA_TRY(const Value shifted, binary(graph, Op::Add, mean, eps));
  return graph.add(Op::Rsqrt, {shifted});
}

struct StaticRange {
  int64_t low, high;
};

// A static bound counts from the end where it is negative, and is clamped where the extent is
// known.
Dim normalise_bound(const Dim& bound, const Dim& extent, StaticRange limits) {
  if (!bound.is_static()) return bound;
  Dim result = bound.value() < 0 ? extent + bound : bound;
  if (result.is_static() && extent.is_static())
    result = std::clamp(result.value(), limits.low, limits.high);
  return result;
}

SliceRange normalise(const PythonSlice& range, const Dim& extent) {
  const bool forward = range.step > 0;
  const int64_t size = extent.maybe_value().value_or(0);
  const StaticRange limits = forward ? StaticRange{0, size} : StaticRange{-1, size - 1};
  SliceRange result{forward ? Dim(0) : extent - 1, forward ? extent : Dim(-1), range.step};
  if (range.begin) result.begin = normalise_bound(*range.begin, extent, limits);
  if (range.end) result.end = normalise_bound(*range.end, extent, limits);
  const Dim span = forward ? result.end - result.begin : result.begin - result.end;
  const bool empty = extent.is_static() && span.is_static() && span.value() <= 0;
  if (empty && forward) result.end = result.begin;
  // An empty backward range stands where it can be written: x[0:0:-1].
  if (empty && !forward) result.begin = result.end = Dim(size > 0 ? 0 : -1);
  return result;
}

Result<std::vector<Value>> split_at(Graph& graph, Value x, const std::vector<Dim>& sizes,
                                    int64_t axis) {
  std::vector<Value> parts;
  Dim begin = 0;
  for (const Dim& size : sizes) {
    std::vector<PythonSlice> ranges(static_cast<size_t>(axis) + 1);
    ranges.back() = {begin, begin + size, 1};
    ATTACCA_TRY(const Value part, slice(graph, x, ranges));
    parts.push_back(part);
    begin = begin + size;
  }
  return parts;
}

}  // namespace

Result<Value> cast(Graph& graph, Value x, DType dtype, bool saturate) {
  if (graph.type(x).dtype == dtype) return x;
  return graph.add(Op::Cast, {x}, CastAttrs{dtype, saturate});
}

Result<Value> binary(Graph& graph, Op op, Value x, double y) {
  const Value literal = graph.literal(y, graph.type(x).dtype);
  return graph.add(op, {x, literal});
}

Result<Value> binary(Graph& graph, Op op, double x, Value y) {
  const Value literal = graph.literal(x, graph.type(y).dtype);
  return graph.add(op, {literal, y});
}

Result<Value> softmax(Graph& graph, Value x, int64_t axis) {
  const DType dtype = graph.type(x).dtype;
  ATTACCA_TRY(axis, axis_of(graph, x, axis, "softmax"));
  ATTACCA_TRY(const Value wide, widened(graph, x));
  ATTACCA_TRY(const Value largest, reduce(graph, Op::ReduceMax, wide, axis));
  ATTACCA_TRY(const Value shifted, graph.add(Op::Sub, {wide, largest}));
  ATTACCA_TRY(const Value powers, graph.add(Op::Exp, {shifted}));
  ATTACCA_TRY(const Value total, reduce(graph, Op::Sum, powers, axis));
  ATTACCA_TRY(const Value result, graph.add(Op::Div, {powers, total}));
  return cast(graph, result, dtype);
}

Result<Value> layernorm(Graph& graph, Value x, std::optional<Value> weight,
                        std::optional<Value> bias, double eps) {
  const DType dtype = graph.type(x).dtype;
  ATTACCA_TRY_VOID(axis_of(graph, x, -1, "layernorm"));
  ATTACCA_TRY(const Value wide, widened(graph, x));
  ATTACCA_TRY(const Value mean, reduce(graph, Op::Mean, wide, -1));
  ATTACCA_TRY(const Value centred, graph.add(Op::Sub, {wide, mean}));
  ATTACCA_TRY(const Value scale, inverse_rms(graph, centred, eps));
  ATTACCA_TRY(Value result, graph.add(Op::Mul, {centred, scale}));
  if (weight) {
    ATTACCA_TRY(result, graph.add(Op::Mul, {result, *weight}));
  }
  if (bias) {
    ATTACCA_TRY(result, graph.add(Op::Add, {result, *bias}));
  }
  return cast(graph, result, dtype);
}

Result<Value> rmsnorm(Graph& graph, Value x, std::optional<Value> weight, double eps) {
  const DType dtype = graph.type(x).dtype;
  ATTACCA_TRY_VOID(axis_of(graph, x, -1, "rmsnorm"));
  ATTACCA_TRY(const Value wide, widened(graph, x));
  ATTACCA_TRY(const Value scale, inverse_rms(graph, wide, eps));
  ATTACCA_TRY(Value result, graph.add(Op::Mul, {wide, scale}));
  if (weight) {
    ATTACCA_TRY(result, graph.add(Op::Mul, {result, *weight}));
  }
  return cast(graph, result, dtype);
}

Result<std::vector<Value>> split(Graph& graph, Value x, int64_t parts, int64_t axis) {
  ATTACCA_TRY(axis, axis_of(graph, x, axis, "split"));
  constexpr int64_t kMostParts = 65536;
  if (parts < 1 || parts > kMostParts)
    return fail(fmt::format("split into {} parts", parts), {},
                fmt::format("use 1 to {} parts", kMostParts));
  const Dim& extent = graph.type(x).shape[static_cast<size_t>(axis)];
  const std::optional<Dim> size = divide(extent, parts);
  if (!size)
    return fail(fmt::format("split of an axis of {} into {} equal parts", to_string(extent), parts),
                {}, "give the sizes, e.g. split(x, [3, 5]), or declare the axis as 2*N");
  return split_at(graph, x, std::vector<Dim>(static_cast<size_t>(parts), *size), axis);
}

Result<std::vector<Value>> split_sizes(Graph& graph, Value x, const std::vector<int64_t>& sizes,
                                       int64_t axis) {
  ATTACCA_TRY(axis, axis_of(graph, x, axis, "split"));
  const Dim extent = graph.type(x).shape[static_cast<size_t>(axis)];
  Dim total = 0;
  bool negative = sizes.empty();
  for (const int64_t size : sizes) {
    negative |= size < 0;
    total = total + size;
  }
  if (negative || !(total == extent))
    return fail(fmt::format("split sizes {} of an axis of {}", to_string(sizes), to_string(extent)),
                {}, "give sizes >= 0 whose sum is the axis");
  return split_at(graph, x, std::vector<Dim>(sizes.begin(), sizes.end()), axis);
}

Result<Value> dequantize(Graph& graph, Value q, Value scale, std::optional<Value> zero_point) {
  ATTACCA_TRY(Value result, cast(graph, q, DType::F32));
  if (zero_point) {
    ATTACCA_TRY(const Value zero, cast(graph, *zero_point, DType::F32));
    ATTACCA_TRY(result, graph.add(Op::Sub, {result, zero}));
  }
  return graph.add(Op::Mul, {result, scale});
}

Result<Value> quantize(Graph& graph, Value x, Value scale, std::optional<Value> zero_point,
                       DType dtype) {
  ATTACCA_TRY(const Value wide, widened(graph, x));
  ATTACCA_TRY(Value result, graph.add(Op::Div, {wide, scale}));
  // fp8 targets round in the cast.
  if (!is_float(dtype)) {
    ATTACCA_TRY(result, graph.add(Op::Round, {result}));
  }
  if (zero_point) {
    ATTACCA_TRY(const Value zero, cast(graph, *zero_point, DType::F32));
    ATTACCA_TRY(result, graph.add(Op::Add, {result, zero}));
  }
  return cast(graph, result, dtype, true);
}

Result<Value> slice(Graph& graph, Value x, const std::vector<PythonSlice>& ranges) {
  const Shape shape = graph.type(x).shape;
  if (ranges.size() > shape.size())
    return fail(fmt::format("a slice of {} axes of {}", ranges.size(), to_string(graph.type(x))),
                {}, fmt::format("give at most {}", shape.size()));
  SliceAttrs attrs;
  for (size_t i = 0; i < shape.size(); ++i) {
    const PythonSlice range = i < ranges.size() ? ranges[i] : PythonSlice{};
    constexpr int64_t kLongestStep = int64_t{1} << 62;
    if (range.step == 0 || range.step > kLongestStep || range.step < -kLongestStep)
      return fail(fmt::format("a slice with step {}", range.step), {},
                  "use a step such as 2 or -1");
    attrs.ranges.push_back(normalise(range, shape[i]));
  }
  return graph.add(Op::Slice, {x}, std::move(attrs));
}

}  // namespace attacca::ir
