#include "differential/error_bound.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "support/check.hpp"

namespace attacca::testing {
namespace {

using ir::DType;
using ir::Graph;
using ir::Node;
using ir::Op;
using ir::Tensor;
using ir::Value;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kEps = 0x1p-24;         // half a last place of f32, relative
constexpr double kOpError = 0x1p-20;     // of a table op's own arithmetic, relative to its result
constexpr double kInputError = 0x1p-22;  // and to its inputs: intermediates round too
constexpr double kHuge = 1e37;           // f32 may overflow on the way to this

// A value of the graph: f64 tensors of the reference and of its error.
struct Pair {
  Tensor value, error;
};

Tensor numbers(const Tensor& like) {
  auto made = Tensor::make(DType::F64, like.shape());
  ATTACCA_CHECK(made.has_value(), "no memory for a bound");
  return *std::move(made);
}

// One op on f64 tensors (gather: the second operand is cast back to s64), through the interpreter.
Tensor apply(Op op, const std::vector<Tensor>& operands, const ir::Attrs& attrs) {
  Graph graph;
  ir::Bindings bindings;
  std::vector<Value> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    ir::Shape shape(operands[i].shape().begin(), operands[i].shape().end());
    const std::string name = "x" + std::to_string(i);
    values.push_back(*graph.input(name, {DType::F64, std::move(shape)}));
    bindings.emplace(name, operands[i]);
  }
  const auto value = graph.add(op, values, attrs);
  ATTACCA_CHECK(value.has_value(), "a bound's op does not type");
  graph.add_output(*value, "y");
  auto result = ir::interpret(graph, bindings);
  ATTACCA_CHECK(result.has_value(), "a bound's op does not run");
  return result->front();
}

Tensor absolute(const Tensor& x) {
  return apply(Op::Abs, {x}, {});
}

template <class F>
Tensor combine(const Tensor& a, const Tensor& b, F f) {
  Tensor out = numbers(a);
  for (int64_t i = 0; i < out.size(); ++i)
    out.as<double>()[i] = f(a.as<double>()[i], b.as<double>()[i]);
  return out;
}

struct Limits {
  double half_ulp, tiny, largest;
};

Limits limits_of(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return {0x1p-11, 0x1p-25, 65504};
    case DType::BF16:
      return {0x1p-8, 1e-38, 3.3e38};
    case DType::F8E4M3:
      return {0x1p-4, 0x1p-10, 448};
    case DType::F8E5M2:
      return {0x1p-3, 0x1p-17, 57344};
    case DType::F64:
      return {0x1p-53, 0, 1e308};
    default:
      return {kEps, 1e-37, kHuge};
  }
}

// The error after rounding a value that is known to within `error` to the dtype.
double round_error(double value, double error, DType dtype) {
  // f8e4m3 has no infinity, and a saturating cast makes none.
  if (std::isinf(value) && ir::is_fp8(dtype)) return kInfinity;
  if (!std::isfinite(value)) return error;
  const Limits limits = limits_of(dtype);
  const double reach = std::fabs(value) + error;
  if (!(reach < limits.largest)) return kInfinity;
  return error + limits.half_ulp * reach + limits.tiny;
}

class Bounds {
 public:
  Bounds(const Graph& graph, const ir::Bindings& inputs, const std::vector<bool>& stored)
      : graph_(graph), inputs_(inputs), stored_(stored), pairs_(graph.size()) {}

  std::vector<Bounded> run() {
    for (uint32_t id = 0; id < graph_.size(); ++id) {
      pairs_[id] = bound(graph_.nodes()[id]);
      if (stored_[id]) round_all(pairs_[id], graph_.nodes()[id].type.dtype);
    }
    std::vector<Bounded> results;
    for (const ir::Output& output : graph_.outputs()) {
      const Pair& pair = pairs_[output.value.id];
      const int64_t count = pair.value.size();
      const double *v = pair.value.as<double>(), *e = pair.error.as<double>();
      results.push_back({{v, v + count}, {e, e + count}});
    }
    return results;
  }

 private:
  const Pair& operand(const Node& node, size_t i) const { return pairs_[node.operands[i].id]; }
  bool is_float(Value value) const { return ir::is_float(graph_.type(value).dtype); }

  static void round_all(Pair& pair, DType dtype) {
    if (!ir::is_float(dtype)) return;
    for (int64_t i = 0; i < pair.value.size(); ++i)
      pair.error.as<double>()[i] =
          round_error(pair.value.as<double>()[i], pair.error.as<double>()[i], dtype);
  }

  Pair bound(const Node& node) const {
    if (node.op == Op::Input) return exact(inputs_.at(node.name));
    if (node.op == Op::Constant)
      return exact(node.tensor ? *node.tensor : Tensor::of(DType::F64, {}, {node.literal->value}));
    if (node.op == Op::MatMul) return product(node);
    if (node.op == Op::Cast) return cast(node);
    if (ir::is_reduction(node.op)) return reduction(node);
    if (ir::is_elementwise(node.op)) return elementwise(node);
    return moved(node);
  }

  static Pair exact(const Tensor& tensor) {
    Pair pair{numbers(tensor), numbers(tensor)};
    const Tensor dense = *tensor.contiguous();
    for (int64_t i = 0; i < dense.size(); ++i) pair.value.as<double>()[i] = dense.number_at(i);
    return pair;
  }

  Pair moved(const Node& node) const {
    std::vector<Tensor> values, errors;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      values.push_back(operand(node, i).value);
      errors.push_back(operand(node, i).error);
    }
    ATTACCA_CHECK(node.op != Op::Gather, "no bound for gather");
    return {apply(node.op, values, node.attrs), apply(node.op, errors, node.attrs)};
  }

  Pair product(const Node& node) const {
    const Pair &a = operand(node, 0), &b = operand(node, 1);
    ir::Attrs attrs;
    const auto times = [&](const Tensor& x, const Tensor& y) {
      return apply(Op::MatMul, {x, y}, attrs);
    };
    Pair result{times(a.value, b.value), {}};
    const auto add = [](double x, double y) { return x + y; };
    const Tensor size_a = absolute(a.value), size_b = absolute(b.value);
    Tensor carried = combine(times(size_a, b.error), times(a.error, size_b), add);
    carried = combine(carried, times(a.error, b.error), add);
    const double length = static_cast<double>(a.value.shape().back());
    const double gamma = ir::is_float(node.type.dtype) ? (length + 2) * 2 * kEps : 0;
    // Matrix units may flush subnormals: a term of a product can lose the smallest normal f32.
    const double flushed = ir::is_float(node.type.dtype) ? length * 0x1p-126 : 0;
    result.error = combine(carried, times(size_a, size_b),
                           [&](double e, double s) { return settle(e + gamma * s + flushed); });
    give_up_on_non_finite(result);
    return result;
  }

  // What an infinity among the terms of a product becomes depends on the order of summation
  // and on overflow in f32: nothing is promised.
  static void give_up_on_non_finite(Pair& result) {
    for (int64_t i = 0; i < result.value.size(); ++i) {
      double& e = result.error.as<double>()[i];
      if (!std::isfinite(result.value.as<double>()[i]))
        e = kInfinity;
      else if (std::fabs(result.value.as<double>()[i]) + e > kHuge)
        e = kInfinity;
    }
  }

  static double settle(double error) { return std::isnan(error) ? kInfinity : error; }

  Pair cast(const Node& node) const {
    Pair pair = operand(node, 0);
    const DType to = node.type.dtype;
    if (ir::is_float(to)) {
      Pair result{pair.value, combine(pair.error, pair.error, [](double e, double) { return e; })};
      round_all(result, to);
      for (int64_t i = 0; node.attrs.saturate && i < result.value.size(); ++i)
        if (std::isinf(result.value.as<double>()[i])) result.error.as<double>()[i] = kInfinity;
      return result;
    }
    const auto overflow = node.attrs.saturate ? ir::Overflow::Saturate : ir::Overflow::Ieee;
    const auto integer = [&](double x) {
      return static_cast<double>(ir::to_integer(to, x, overflow));
    };
    Tensor value = combine(pair.value, pair.error, [&](double v, double) { return integer(v); });
    Tensor error = combine(pair.value, pair.error, [&](double v, double e) {
      // Wrapping is no monotone function: beyond the range the corners say nothing.
      const bool may_wrap = !node.attrs.saturate && e > 0 && std::fabs(v) + e >= 128;
      if (!std::isfinite(e) || may_wrap) return kInfinity;
      return std::max(std::fabs(integer(v + e) - integer(v)),
                      std::fabs(integer(v - e) - integer(v)));
    });
    return {std::move(value), std::move(error)};
  }

  Pair reduction(const Node& node) const {
    const Pair& x = operand(node, 0);
    Pair result{apply(node.op, {x.value}, node.attrs), {}};
    if (node.op != Op::Sum && node.op != Op::Mean) {
      result.error = apply(Op::ReduceMax, {x.error}, node.attrs);
    } else {
      const double count = static_cast<double>(std::max<int64_t>(x.value.size(), 1)) /
                           static_cast<double>(std::max<int64_t>(result.value.size(), 1));
      result.error = combine(
          apply(node.op, {x.error}, node.attrs), apply(node.op, {absolute(x.value)}, node.attrs),
          [&](double e, double s) { return settle(e + (count + 2) * 2 * kEps * s); });
    }
    for (int64_t i = 0; i < result.value.size(); ++i)
      if (!std::isfinite(result.value.as<double>()[i])) result.error.as<double>()[i] = kInfinity;
    round_all(result, DType::F32);
    return result;
  }

  Pair elementwise(const Node& node) const {
    const size_t arity = node.operands.size();
    ir::Attrs shape;
    shape.shape = node.type.shape;
    std::array<Tensor, 3> values, errors;
    for (size_t i = 0; i < arity; ++i) {
      values[i] = apply(Op::Broadcast, {operand(node, i).value}, shape);
      errors[i] = apply(Op::Broadcast, {operand(node, i).error}, shape);
    }
    Pair result{numbers(values[0]), numbers(values[0])};
    for (int64_t at = 0; at < result.value.size(); ++at) {
      std::array<double, 3> v{}, e{};
      for (size_t i = 0; i < arity; ++i) {
        v[i] = values[i].as<double>()[at];
        e[i] = errors[i].as<double>()[at];
        if (is_float(node.operands[i]) && std::isfinite(v[i]))
          e[i] += kInputError * std::fabs(v[i]);
      }
      element(node, {v.data(), arity}, {e.data(), arity}, result.value.as<double>()[at],
              result.error.as<double>()[at]);
    }
    return result;
  }

  // The op at every corner of the operands' intervals. Integer nodes are exact.
  void element(const Node& node, std::span<const double> v, std::span<const double> e,
               double& value, double& error) const {
    const bool real = ir::is_float(node.type.dtype);
    bool integers = true;
    for (const Value operand : node.operands) integers &= !is_float(operand);
    const auto at = [&](std::span<const double> x) {
      if (!integers) return ir::evaluate(node.op, x, node.attrs.params);
      std::array<int64_t, 3> whole{};
      std::copy(x.begin(), x.end(), whole.begin());
      const int64_t y = ir::evaluate(node.op, std::span<const int64_t>(whole.data(), x.size()),
                                     node.attrs.params);
      return static_cast<double>(ir::to_integer(node.type.dtype, y));
    };
    value = at(v);
    error = 0;
    bool pole = false;
    size_t corners = 1;
    for (size_t i = 0; i < v.size(); ++i) corners *= 3;
    std::array<double, 3> x{};
    for (size_t corner = 0; corner < corners; ++corner) {
      size_t code = corner;
      for (size_t i = 0; i < v.size(); ++i, code /= 3)
        x[i] = code % 3 == 0 ? v[i] : code % 3 == 1 ? v[i] + e[i] : v[i] - e[i];
      const double y = at({x.data(), v.size()});
      const bool same_kind = std::isnan(value)      ? std::isnan(y)
                             : std::isfinite(value) ? std::isfinite(y)
                                                    : y == value;
      pole |= !same_kind;
      if (std::isfinite(value) && std::isfinite(y)) error = std::max(error, std::fabs(y - value));
    }
    for (size_t i = 0; i < v.size(); ++i)
      pole |= !std::isfinite(e[i]) || crosses_pole(node.op, i, v[i], e[i]);
    pole |= node.op == Op::Pow && v[0] - e[0] < 0 && e[1] > 0;
    if (pole) {
      error = kInfinity;
      return;
    }
    if (!real || !std::isfinite(value)) return;
    error = round_error(value, 1.5 * error + kOpError * std::fabs(value), DType::F32);
    if (node.attrs.compute) error = round_error(value, error, *node.attrs.compute);
  }

  // Corners on both sides of a pole or far apart on a wave say nothing of what lies between.
  static bool crosses_pole(Op op, size_t operand, double v, double e) {
    const bool divides = (op == Op::Div && operand == 1) || op == Op::Reciprocal || op == Op::Pow;
    if (divides) return v - e <= 0 && v + e >= 0 && !(e == 0 && std::isfinite(v) && v != 0);
    if (op == Op::Sin || op == Op::Cos) return e > 0.5;
    return false;
  }

  const Graph& graph_;
  const ir::Bindings& inputs_;
  const std::vector<bool>& stored_;
  std::vector<Pair> pairs_;
};

}  // namespace

std::vector<Bounded> error_bounds(const Graph& graph, const ir::Bindings& inputs,
                                  const std::vector<bool>& stored) {
  return Bounds(graph, inputs, stored).run();
}

}  // namespace attacca::testing
