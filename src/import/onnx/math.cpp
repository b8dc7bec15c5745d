// Elementwise ops.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"

#include "import/onnx/ops.hpp"
#include "import/onnx/tensor.hpp"
#include "ir/graph/semantics.hpp"
#include "ir/graph/size_functions.hpp"

namespace attacca::import {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;
using ir::sem::kSeluAlpha;
using ir::sem::kSeluScale;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Result<std::vector<Value>> all_inputs(Node& node) {
  std::vector<Value> values;
  for (size_t i = 0; i < node.inputs(); ++i) {
    ATTACCA_TRY(const Value value, node.input(i));
    values.push_back(value);
  }
  if (values.empty()) return fail("the node has no inputs", {}, kInputsFix);
  return values;
}

// ONNX has no promotion: all operands have one dtype, except the condition of Where.
Status check_dtypes(Node& node, const std::vector<Value>& values, size_t first) {
  for (size_t i = first + 1; i < values.size(); ++i)
    if (node.dtype(values[i]) != node.dtype(values[first]))
      return fail(fmt::format("operands of types {} and {}", ir::name(node.dtype(values[first])),
                              ir::name(node.dtype(values[i]))),
                  {}, "insert a Cast");
  return {};
}

// A constant of one element that adds no axis becomes a scalar, which more rules match.
void simplify_scalars(Node& node, std::vector<Value>& values) {
  size_t rank = 0;
  for (const Value value : values)
    if (!ir::element_count(node.shape(value)).is(1) || node.graph()[value].op != Op::Constant)
      rank = std::max(rank, node.shape(value).size());
  for (Value& value : values) {
    const ir::Node& from = node.graph()[value];
    if (from.op != Op::Constant || !from.tensor || from.tensor->size() != 1 ||
        from.type.shape.size() > rank)
      continue;
    auto scalar = ir::Tensor::make(from.type.dtype, {});
    if (!scalar) continue;
    if (ir::is_float(from.type.dtype))
      scalar->set_number(0, from.tensor->number_at(0));
    else
      scalar->set_integer(0, from.tensor->integer_at(0));
    value = add_constant(node.graph(), *std::move(scalar));
  }
}

// Whether this is the smaller of the two, as the number of the first or of the last rows of so
// many.
bool is_minimum(const ir::Dim& extent, const ir::Dim& size, int64_t rows) {
  return extent == ir::minimum(size, rows) || extent == rows - ir::maximum(rows - size, 0);
}

// Where one operand has M of an axis and another min(M, c), as a slice of a table of c rows has,
// they can be broadcast only if that is M, or 1: the other is sliced to it, which is checked when M
// is known.
Status extend_minimums(Node& node, std::vector<Value>& values) {
  for (Value& value : values) {
    for (const Value other : values) {
      const ir::Shape wanted = node.shape(other);
      for (size_t back = 1; back <= std::min(node.shape(value).size(), wanted.size()); ++back) {
        const size_t axis = node.shape(value).size() - back;
        const ir::Dim extent = node.shape(value)[axis], &whole = wanted[wanted.size() - back];
        if (extent.is_static() || whole.is_static() || extent == whole) continue;
        const std::optional<int64_t> most = ir::upper_bound(extent);
        if (!most || !is_minimum(extent, whole, *most)) continue;
        const ir::Dim end = *most == 1 ? ir::Dim(1) : whole;
        ATTACCA_TRY(value, slice_axis(node.expr(value), int64_t(axis), 0, end).value);
      }
    }
  }
  return {};
}

// Whether both are functions of the same sizes, and of at least one.
bool of_same_symbols(const ir::Dim& a, const ir::Dim& b) {
  std::vector<std::string> of_a, of_b;
  a.collect_symbols(of_a);
  b.collect_symbols(of_b);
  std::sort(of_a.begin(), of_a.end());
  std::sort(of_b.begin(), of_b.end());
  return !of_a.empty() && of_a == of_b;
}

// Extents of one axis that are different functions of the same sizes become those of the first
// operand that has more than 1 there, where they count as equal. (Of different sizes one may be 1.)
Status match_extents(Node& node, std::vector<Value>& values) {
  int64_t rank = 0;
  for (const Value value : values) rank = std::max(rank, node.rank(value));
  for (int64_t back = 1; back <= rank; ++back) {
    std::optional<ir::Dim> wanted;
    for (Value& value : values) {
      const int64_t axis = node.rank(value) - back;
      if (axis < 0) continue;
      const ir::Dim extent = node.shape(value)[static_cast<size_t>(axis)];
      if (extent.is(1)) continue;
      if (!wanted) wanted = extent;
      if (extent == *wanted || !of_same_symbols(extent, *wanted)) continue;
      ATTACCA_TRY(value, of_extent(node, node.expr(value), axis, *wanted).value);
    }
  }
  return {};
}

void note_broadcast(Node& node, const std::vector<Value>& values) {
  std::vector<Expr> operands;
  for (const Value value : values) operands.push_back(node.expr(value));
  node.broadcasts(operands);
}

Expr clamp(const Expr& x, double low, double high) {
  return emit_with(Op::Clamp, x, {low, high});
}

}  // namespace

double largest_of(DType dtype) {
  constexpr double kMost = std::numeric_limits<double>::max();
  return ir::round_to(dtype, kMost, ir::Overflow::Saturate);
}

Result<Outputs> direct(Node& node) {
  ATTACCA_TRY(std::vector<Value> values, all_inputs(node));
  ATTACCA_TRY_VOID(check_dtypes(node, values, node.op() == Op::Where ? 1 : 0));
  if (values.size() > 1) ATTACCA_TRY_VOID(extend_minimums(node, values));
  if (values.size() > 1) simplify_scalars(node, values);
  if (values.size() > 1) ATTACCA_TRY_VOID(match_extents(node, values));
  note_broadcast(node, values);
  return node.graph().add(node.op(), std::move(values));
}

Result<Outputs> legacy_binary(Node& node) {
  ATTACCA_TRY(std::vector<Value> values, all_inputs(node));
  if (values.size() != 2) return fail(fmt::format("{} inputs, wanted 2", values.size()));
  ATTACCA_TRY_VOID(check_dtypes(node, values, 0));
  const int64_t rank = node.rank(values[0]), inner = node.rank(values[1]);
  if (node.integer("broadcast", 0) == 0) {
    if (!(node.shape(values[0]) == node.shape(values[1])))
      return fail("shapes differ and broadcast is not set", {}, "export with opset 7 or later");
  } else if (node.attribute("axis") != nullptr && inner > 0) {
    ATTACCA_TRY(const int64_t axis, normalise_axis(node.integer("axis", 0), rank));
    if (axis + inner > rank) return fail("the second operand does not fit at axis");
    ir::Shape shape = node.shape(values[1]);
    shape.resize(static_cast<size_t>(rank - axis), 1);
    ATTACCA_TRY(values[1], reshape(node.expr(values[1]), shape).value);
  }
  return node.graph().add(node.op(), std::move(values));
}

Result<Outputs> power(Node& node) {
  ATTACCA_TRY(std::vector<Value> values, all_inputs(node));
  if (values.size() != 2) return fail(fmt::format("{} inputs, wanted 2", values.size()));
  const DType base = node.dtype(values[0]), exponent = node.dtype(values[1]);
  const std::optional<double> known = node.constant_scalar(1);
  // The result has the base's type. Operands of two types are computed in f64, which represents
  // every value of theirs that matters, but for a float to the power of a small number.
  const bool small = ir::is_float(base) && known && std::fabs(*known) <= 64;
  const DType compute = base == exponent || small ? base : DType::F64;
  if (known == 2.0 && node.rank(values[1]) <= node.rank(values[0]))
    return emit(Op::Square, node.expr(values[0]));
  ATTACCA_TRY(values[0], cast(node.expr(values[0]), compute).value);
  ATTACCA_TRY(values[1], cast(node.expr(values[1]), compute).value);
  simplify_scalars(node, values);
  note_broadcast(node, values);
  return cast({&node.graph(), node.graph().add(Op::Pow, std::move(values))}, base);
}

Result<Outputs> modulo(Node& node) {
  ATTACCA_TRY(const std::vector<Value> values, all_inputs(node));
  if (values.size() != 2) return fail(fmt::format("{} inputs, wanted 2", values.size()));
  ATTACCA_TRY_VOID(check_dtypes(node, values, 0));
  const bool of_dividend = node.integer("fmod", 0) != 0;  // the sign
  if (!of_dividend && ir::is_float(node.dtype(values[0])))
    return fail("Mod of floats with fmod=0", {}, "ONNX demands fmod=1 of floats");
  note_broadcast(node, values);
  const Expr x = node.x(0), y = node.x(1), rest = emit(Op::Fmod, std::vector<Expr>{x, y});
  if (of_dividend) return rest;
  const Expr differs = emit(Op::Xor, std::vector<Expr>{rest < 0.0, y < 0.0});
  return where(emit(Op::And, std::vector<Expr>{emit(Op::Ne, rest, 0.0), differs}), rest + y, rest);
}

Result<Outputs> variadic(Node& node) {
  ATTACCA_TRY(std::vector<Value> values, all_inputs(node));
  ATTACCA_TRY_VOID(check_dtypes(node, values, 0));
  if (values.size() > 1) simplify_scalars(node, values);
  note_broadcast(node, values);
  Expr total = node.expr(values[0]);
  for (size_t i = 1; i < values.size(); ++i)
    total = emit(node.op(), std::vector<Expr>{total, node.expr(values[i])});
  return total;
}

Result<Outputs> variadic_mean(Node& node) {
  ATTACCA_TRY(const std::vector<Value> values, all_inputs(node));
  ATTACCA_TRY_VOID(check_dtypes(node, values, 0));
  note_broadcast(node, values);
  Expr total = node.expr(values[0]);
  for (size_t i = 1; i < values.size(); ++i) total = total + node.expr(values[i]);
  return total / static_cast<double>(values.size());
}

Result<Outputs> leaky_relu(Node& node) {
  return emit_with(Op::LeakyRelu, node.x(0), {node.real("alpha", 0.01)});
}

Result<Outputs> elu(Node& node) {
  return emit_with(Op::Elu, node.x(0), {node.real("alpha", 1.0)});
}

Result<Outputs> selu(Node& node) {
  const bool early = node.opset() < 6;  // its defaults have fewer digits
  const double alpha = node.real("alpha", early ? 1.6732 : kSeluAlpha);
  const double gamma = node.real("gamma", early ? 1.0507 : kSeluScale);
  if (std::fabs(alpha - kSeluAlpha) < 1e-6 && std::fabs(gamma - kSeluScale) < 1e-6)
    return emit(Op::Selu, node.x(0));
  return emit_with(Op::Elu, node.x(0), {alpha}) * gamma;
}

Result<Outputs> celu(Node& node) {
  const double alpha = node.real("alpha", 1.0);
  const Expr x = node.x(0);
  if (alpha == 1.0) return emit(Op::Elu, x);
  // The quotient of a large x must not overflow even where it is not used: a fold may use it.
  const Expr low = emit(Op::Min, x, 0.0);
  return where(x < 0.0, alpha * emit(Op::Expm1, low / alpha), x);
}

Result<Outputs> thresholded_relu(Node& node) {
  const Expr x = node.x(0);
  return where(x > node.real("alpha", 1.0), x, scalar_like(x, 0.0));
}

Result<Outputs> shrink(Node& node) {
  const double bias = node.real("bias", 0.0), lambda = node.real("lambd", 0.5);
  const Expr x = node.x(0);
  return where(x < -lambda, x + bias, where(x > lambda, x - bias, scalar_like(x, 0.0)));
}

Result<Outputs> hard_sigmoid(Node& node) {
  return emit_with(Op::HardSigmoid, node.x(0), {node.real("alpha", 0.2), node.real("beta", 0.5)});
}

Result<Outputs> softsign(Node& node) {
  const Expr x = node.x(0);
  return x / (emit(Op::Abs, x) + 1.0);
}

Result<Outputs> swish(Node& node) {
  return emit_with(Op::Silu, node.x(0), {node.real("alpha", 1.0)});
}

Result<Outputs> gelu(Node& node) {
  const std::string approximate = node.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return fail(fmt::format("approximate={} is not supported", approximate), {},
                "use none or tanh");
  return emit(approximate == "tanh" ? Op::GeluTanh : Op::Gelu, node.x(0));
}

Result<Outputs> prelu(Node& node) {
  const Expr x = node.x(0);
  node.broadcasts({x, node.x(1)});
  return where(x < 0.0, node.x(1) * x, x);
}

Result<Outputs> prelu_channels(Node& node) {
  ATTACCA_TRY(const Value x, node.input(0));
  ATTACCA_TRY(const Value slope, node.input(1));
  ir::Shape shape = node.shape(slope);
  if (shape.size() == 1 && node.rank(x) > 2 && !shape[0].is(1))
    shape.resize(static_cast<size_t>(node.rank(x) - 1), 1);
  const Expr in = node.expr(x);
  return where(in < 0.0, reshape(node.expr(slope), shape) * in, in);
}

Result<Outputs> clip_attributes(Node& node) {
  ATTACCA_TRY(const Value in, node.input(0));
  // Opset 1 leaves an absent bound out; later ones name the ends of float's range.
  const double end = node.opset() < 6 ? kInfinity : largest_of(DType::F32);
  return clamp(node.expr(in), node.real("min", -end), node.real("max", end));
}

// Min(Max(x, low), high): a bound that is NaN makes every element NaN. One left out is the end of
// the dtype's finite range.
Result<Outputs> clip(Node& node) {
  ATTACCA_TRY(const Value in, node.input(0));
  const bool floats = ir::is_float(node.dtype(in));
  const double end = floats ? largest_of(node.dtype(in)) : 0;
  // The bound as a parameter of the op; none for an integer that a double does not hold exactly.
  const auto fixed = [&](size_t i, double otherwise) -> std::optional<double> {
    if (!floats) return std::nullopt;
    if (!node.has(i)) return otherwise;
    const auto bound = node.constant_scalar(i);
    return bound && !std::isnan(*bound) ? bound : std::nullopt;
  };
  const auto low = fixed(1, -end), high = fixed(2, end);
  Expr x = node.x(0);
  if (low && high) return clamp(x, *low, *high);
  if (low) x = clamp(x, *low, kInfinity);
  if (!low && node.has(1)) x = emit(Op::Max, std::vector<Expr>{x, reshape(node.x(1), {})});
  if (high) return clamp(x, -kInfinity, *high);
  return node.has(2) ? emit(Op::Min, std::vector<Expr>{x, reshape(node.x(2), {})}) : x;
}

Result<Outputs> is_nan(Node& node) {
  return emit(Op::Ne, std::vector<Expr>{node.x(0), node.x(0)});
}

Result<Outputs> is_inf(Node& node) {
  const bool negative = node.integer("detect_negative", 1) != 0;
  const bool positive = node.integer("detect_positive", 1) != 0;
  if (!negative && !positive) return emit(Op::Lt, std::vector<Expr>{node.x(0), node.x(0)});
  if (negative && positive) return emit(Op::Eq, emit(Op::Abs, node.x(0)), kInfinity);
  return emit(Op::Eq, node.x(0), positive ? kInfinity : -kInfinity);
}

Result<Outputs> cast_to(Node& node) {
  const auto* to = node.attribute("to");
  if (to == nullptr) return fail("attribute to is missing");
  int64_t code = to->i();
  if (to->type() == onnx::AttributeProto::STRING) {
    onnx::TensorProto::DataType named;
    if (!onnx::TensorProto::DataType_Parse(to->s(), &named))
      return fail(fmt::format("unknown type {}", to->s()));
    code = named;
  }
  ATTACCA_TRY(const DType dtype, read_dtype(static_cast<int32_t>(code)));
  return cast(node.x(0), dtype, ir::is_fp8(dtype) && node.integer("saturate", 1) != 0);
}

Result<Outputs> cast_like(Node& node) {
  ATTACCA_TRY(const Value like, node.input(1));
  const DType dtype = node.dtype(like);
  return cast(node.x(0), dtype, ir::is_fp8(dtype) && node.integer("saturate", 1) != 0);
}

Result<Outputs> identity(Node& node) {
  if (!node.has(0)) return node.x(0);
  return std::vector<Entry>{*node.entry(0)};
}

Result<Outputs> dropout(Node& node) {
  const bool trains = node.opset() < 7
                          ? node.attribute("is_test") != nullptr && node.integer("is_test", 0) == 0
                          : node.has(2) && node.constant_scalar(2) != 0.0;
  if (trains)
    return fail("Dropout in training mode is not supported", {}, "export the model for inference");
  ATTACCA_TRY(const Value x, node.input(0));
  std::vector<Entry> results{x};
  if (node.wants(1)) {
    const DType mask_type = node.opset() < 10 ? node.dtype(x) : DType::Bool;
    const Expr all = node.expr(node.graph().literal(1, mask_type));
    ATTACCA_TRY(const Value mask, broadcast_to(all, node.shape(x)).value);
    results.emplace_back(mask);
  }
  return results;
}

}  // namespace attacca::import
