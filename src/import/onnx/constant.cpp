// Ops that make tensors: from attributes, from shapes, from counting.
#include <cmath>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "import/onnx/tensor.hpp"
#include "ir/graph/size_functions.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Tensor;
using ir::Value;

constexpr int64_t kMaxGenerated = int64_t{1} << 20;

template <class List>
Result<Tensor> vector_of(DType dtype, const List& values) {
  ATTACCA_TRY(Tensor tensor, Tensor::make(dtype, {static_cast<int64_t>(values.size())}));
  for (int i = 0; i < values.size(); ++i)
    if (ir::is_float(dtype))
      tensor.set_number(i, static_cast<double>(values[i]));
    else
      tensor.set_integer(i, static_cast<int64_t>(values[i]));
  return tensor;
}

// Whether column - row compares with k, over the two innermost axes of `shape`.
Expr diagonal(Node& node, const Shape& shape, Op compare, const Expr& k) {
  if (shape.size() < 2) return node.failed("a matrix is wanted, got " + ir::to_string(shape));
  const Expr down = counting(node, shape[shape.size() - 2], 2, 0);
  const Expr across = counting(node, shape.back(), 1, 0);
  return emit(compare, std::vector<Expr>{across - down, k});
}

Expr number(Node& node, double value, DType dtype) {
  return node.expr(node.graph().literal(value, dtype));
}

Result<Shape> shape_from(Node& node, size_t i) {
  ATTACCA_TRY(Shape shape, node.dims(i, "the shape"));
  for (const Dim& dim : shape)
    if (dim.is_static() && dim.value() < 0)
      return fail(fmt::format("the negative dimension {}", dim.value()));
  return shape;
}

Error range_error() {
  return {"Range has too many elements or a step of 0", {}, "use fewer elements"};
}

// start, start + step, ... of bounds with symbols.
Result<Outputs> range_of_symbols(Node& node, DType dtype, const Dim& start, const Dim& limit,
                                 const Dim& step) {
  const auto by = step.maybe_value();
  if (!by || *by == 0)
    return fail(fmt::format("Range from {} to {} by {}", ir::to_string(start), ir::to_string(limit),
                            ir::to_string(step)),
                {}, "give the sizes (--dim, in Python dims=); the step is a number other than 0");
  if (*by == 1) return cast(emit_range(node.graph(), start, ir::maximum(start, limit)), dtype);
  const Dim count = ir::maximum(
      *by > 0 ? ir::ceil_div(limit - start, step) : ir::ceil_div(start - limit, Dim(0) - step), 0);
  const Expr places = emit_range(node.graph(), 0, count) * static_cast<double>(*by);
  return cast(places + number_of(node, start), dtype);
}

Result<Outputs> integer_range(Node& node, DType dtype) {
  Dim bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    ATTACCA_TRY(const auto values, node.dims(i, "a bound of Range"));
    if (values.size() != 1) return fail("the bounds of Range are scalars");
    bounds[i] = values[0];
  }
  if (!bounds[0].is_static() || !bounds[1].is_static() || !bounds[2].is_static())
    return range_of_symbols(node, dtype, bounds[0], bounds[1], bounds[2]);
  const int64_t start = bounds[0].value(), limit = bounds[1].value(), step = bounds[2].value();
  if (step == 0) return tl::make_unexpected(range_error());
  const __int128 span = static_cast<__int128>(limit) - start;
  const __int128 count = span / step + (span % step != 0 ? 1 : 0);
  if ((span < 0) != (step < 0) || span == 0) return Known{dtype, {}, false};
  if (count > kMaxGenerated) return tl::make_unexpected(range_error());
  ATTACCA_TRY(Tensor tensor, Tensor::make(dtype, {static_cast<int64_t>(count)}));
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.set_integer(i, start + i * step);
  return add_constant(node.graph(), std::move(tensor));
}

// The size of which number_of() made a scalar, cast to floats; or the whole number it is.
std::optional<Dim> whole_number(Node& node, size_t i) {
  if (const auto known = node.constant_scalar(i)) {
    const bool whole = std::trunc(*known) == *known && std::fabs(*known) < 0x1p31;
    return whole ? std::optional(Dim(static_cast<int64_t>(*known))) : std::nullopt;
  }
  const auto input = node.input(i);
  if (!input) return std::nullopt;
  Value value = *input;
  const auto& graph = node.graph();
  while (graph[value].op == Op::Cast || graph[value].op == Op::Reshape)
    value = graph[value].operands[0];
  if (graph[value].op != Op::Arange || !(graph.type(value).shape == Shape{1})) return std::nullopt;
  return graph[value].get<ir::ShapeAttrs>().shape[0];
}

// whole / 2^shift, exactly.
struct Dyadic {
  int64_t whole;
  int shift;
};

std::optional<Dyadic> dyadic(double value) {
  constexpr int kMostShift = 20;
  for (int shift = 0; shift <= kMostShift; ++shift) {
    const double scaled = std::ldexp(value, shift);
    if (std::fabs(scaled) >= 0x1p31) break;
    if (std::trunc(scaled) == scaled) return Dyadic{static_cast<int64_t>(scaled), shift};
  }
  return std::nullopt;
}

// From `start` to `limit` by a step that is a fraction, whose multiples floats hold exactly.
Result<Outputs> range_by_fraction(Node& node, DType dtype, const Dim& start, const Dim& limit,
                                  const Dyadic& step) {
  const Dim scale = int64_t{1} << step.shift;
  const Dim span = (step.whole > 0 ? limit - start : start - limit) * scale;
  const Dim count = ir::maximum(ir::ceil_div(span, std::abs(step.whole)), 0);
  const Expr places = cast(emit_range(node.graph(), 0, count), dtype);
  const double by = std::ldexp(static_cast<double>(step.whole), -step.shift);
  return places * by + cast(number_of(node, start), dtype);
}

Result<Outputs> float_range(Node& node, DType dtype) {
  const auto start = whole_number(node, 0), limit = whole_number(node, 1),
             step = whole_number(node, 2);
  if (start && limit && !(start->is_static() && limit->is_static())) {
    if (step) return range_of_symbols(node, dtype, *start, *limit, *step);
    const auto fraction = node.constant_scalar(2);
    if (const auto exact = fraction ? dyadic(*fraction) : std::nullopt)
      return range_by_fraction(node, dtype, *start, *limit, *exact);
  }
  double bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    const auto bound = node.constant_scalar(i);
    if (!bound)
      return fail("the bounds of Range must follow from constants and shapes", {},
                  "store them as initializers");
    bounds[i] = *bound;
  }
  const double count = std::ceil((bounds[1] - bounds[0]) / bounds[2]);
  if (!(count <= static_cast<double>(kMaxGenerated))) return tl::make_unexpected(range_error());
  ATTACCA_TRY(Tensor tensor, Tensor::make(dtype, {static_cast<int64_t>(std::max(0.0, count))}));
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set_number(i, bounds[0] + static_cast<double>(i) * bounds[2]);
  return add_constant(node.graph(), std::move(tensor));
}

// Known as a number or a symbol, else a constant of any type.
Result<Dim> depth_of(Node& node) {
  if (const auto known = node.known(1);
      known && known->elements.size() == 1 && !known->elements[0].is_static())
    return known->elements[0];
  const auto depth = node.constant_scalar(1);
  if (!depth || !(*depth >= 0 && *depth <= static_cast<double>(kMaxGenerated)))
    return fail("the depth of OneHot must be a constant, and small", {},
                "store it as an initializer");
  return Dim(static_cast<int64_t>(*depth));
}

}  // namespace

Expr number_of(Node& node, const Dim& size) {
  if (!size.is_static()) return reshape(emit_range(node.graph(), size, size + 1), {});
  return number(node, static_cast<double>(size.value()), DType::S64);
}

Expr counting(Node& node, const Dim& size, int64_t rank, int64_t axis) {
  Shape shape(static_cast<size_t>(rank), 1);
  shape[static_cast<size_t>(axis)] = size;
  const Expr places = reshape(emit_range(node.graph(), 0, size), shape);
  return size.is_static() && size.value() <= kMaxGenerated ? folded(places) : places;
}

Result<Outputs> constant(Node& node) {
  const auto made = [&](Result<Tensor> tensor) -> Result<Outputs> {
    if (!tensor) return tl::make_unexpected(tensor.error());
    return add_constant(node.graph(), *std::move(tensor));
  };
  if (const auto* value = node.typed("value", onnx::AttributeProto::TENSOR)) {
    ATTACCA_TRY(Entry entry, read_constant(node.graph(), value->t(), node.directory()));
    return Outputs(std::vector<Entry>{std::move(entry)});
  }
  if (const auto* value = node.typed("value_float", onnx::AttributeProto::FLOAT))
    return number(node, static_cast<double>(value->f()), DType::F32);
  if (const auto* value = node.typed("value_int", onnx::AttributeProto::INT))
    return Known{DType::S64, {value->i()}, true};
  if (const auto* value = node.typed("value_floats", onnx::AttributeProto::FLOATS))
    return made(vector_of(DType::F32, value->floats()));
  if (const auto* value = node.typed("value_ints", onnx::AttributeProto::INTS))
    return made(vector_of(DType::S64, value->ints()));
  return fail("this form of Constant is not supported", {},
              "use value, value_float(s) or value_int(s)");
}

Result<Outputs> constant_of_shape(Node& node) {
  ATTACCA_TRY(const Shape shape, shape_from(node, 0));
  DType dtype = DType::F32;
  Tensor value = Tensor::of(DType::F32, {}, {0.0});
  if (const auto* given = node.typed("value", onnx::AttributeProto::TENSOR)) {
    ATTACCA_TRY(value, read_tensor(given->t(), node.directory()));
    dtype = value.dtype();
    if (value.size() != 1) return fail("the value of ConstantOfShape holds one element");
  }
  const auto count = ir::element_count(shape).maybe_value();
  if (dtype == DType::S64 && shape.size() == 1 && count && *count <= kMaxKnownElements)
    return Known{dtype, Shape(static_cast<size_t>(*count), value.integer_at(0)), false};
  ATTACCA_TRY(Tensor scalar, Tensor::make(dtype, {}));
  std::copy(value.data(), value.data() + ir::size_of(dtype), scalar.data());
  return broadcast_to(node.expr(add_constant(node.graph(), std::move(scalar))), shape);
}

Result<Outputs> shape_of(Node& node) {
  const auto* entry = node.entry(0);
  Shape shape;
  if (entry != nullptr && !entry->value) {
    if (!entry->known->scalar) shape.push_back(static_cast<int64_t>(entry->known->elements.size()));
  } else {
    ATTACCA_TRY(const Value x, node.input(0));
    shape = node.shape(x);
  }
  const auto rank = static_cast<int64_t>(shape.size());
  const auto bound = [&](std::string_view name, int64_t otherwise) {
    const int64_t at = node.integer(name, otherwise);
    return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank);
  };
  const int64_t start = bound("start", 0), end = bound("end", rank);
  return Known{DType::S64,
               start < end ? Shape(shape.begin() + start, shape.begin() + end) : Shape{}, false};
}

Result<Outputs> size_of(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  return Known{DType::S64, {ir::element_count(node.shape(x))}, true};
}

Result<Outputs> range(Node& node) {
  ATTACCA_TRY(const Value start, node.input(0));
  const DType dtype = node.dtype(start);
  return ir::is_float(dtype) ? float_range(node, dtype) : integer_range(node, dtype);
}

Result<Outputs> eye_like(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  DType dtype = node.dtype(x);
  if (const int64_t code = node.integer("dtype", 0); code != 0) {
    ATTACCA_TRY(dtype, read_dtype(static_cast<int32_t>(code)));
  }
  const int64_t offset = std::clamp(node.integer("k", 0), -kMaxGenerated, kMaxGenerated);
  const Expr k = number(node, static_cast<double>(offset), DType::S64);
  return cast(diagonal(node, node.shape(x), Op::Eq, k), dtype);
}

Result<Outputs> trilu(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  Expr k = number(node, 0, DType::S64);
  if (node.has(1)) {
    ATTACCA_TRY(const Value given, node.input(1));
    k = reshape(node.expr(given), {});
  }
  const bool upper = node.integer("upper", 1) != 0;
  const Expr keep = diagonal(node, node.shape(x), upper ? Op::Ge : Op::Le, k);
  return where(keep, node.expr(x), number(node, 0, node.dtype(x)));
}

// Compares the indices, wrapped once from below, with 0 .. depth-1 along a new axis.
Result<Outputs> one_hot(Node& node) {
  ATTACCA_TRY(const Value indices, node.input(0));
  ATTACCA_TRY(const Value values, node.input(2));
  ATTACCA_TRY(const Dim extent, depth_of(node));
  const int64_t rank = node.rank(indices) + 1;
  ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", -1), rank));
  Shape shape = node.shape(indices);
  shape.insert(shape.begin() + axis, 1);
  const Expr index = reshape(cast(node.expr(indices), DType::S64), shape);
  const Expr wrapped = where(index < 0.0, index + number_of(node, extent), index);
  const Expr hot = emit(Op::Eq, std::vector<Expr>{wrapped, counting(node, extent, rank, axis)});
  if (!(node.shape(values) == Shape{2})) return fail("the values of OneHot are [off, on]");
  const Expr off = reshape(slice_axis(node.expr(values), 0, 0, 1), {});
  const Expr on = reshape(slice_axis(node.expr(values), 0, 1, 2), {});
  return where(hot, on, off);
}

}  // namespace attacca::import
