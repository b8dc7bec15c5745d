#include "import/onnx/sizes/fractions.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "ir/graph/size_functions.hpp"
#include "ir/sizes/formula.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Value;

constexpr size_t kMostElements = 16;
constexpr int kDeepest = 64;

// over / by, by > 0. `rounded`: the float is the quotient's nearest one. Otherwise it is exact, and
// `by` is a power of two.
struct Fraction {
  Dim over, by = 1;
  bool rounded = false;
};
using Fractions = std::vector<Fraction>;

bool is_wide_float(DType dtype) {
  return dtype == DType::F32 || dtype == DType::F64;
}

bool holds_sizes(DType dtype) {
  return dtype == DType::S64 || dtype == DType::S32;
}

bool is_power_of_two(const Dim& dim) {
  const auto value = dim.maybe_value();
  return value && *value > 0 && (*value & (*value - 1)) == 0;
}

std::optional<Fraction> fraction_of(double value) {
  constexpr int kMostShift = 10;
  for (int shift = 0; shift <= kMostShift; ++shift) {
    const double scaled = std::ldexp(value, shift);
    if (!(std::fabs(scaled) < 0x1p24)) break;
    if (std::trunc(scaled) == scaled)
      return Fraction{static_cast<int64_t>(scaled), int64_t{1} << shift};
  }
  return std::nullopt;
}

std::optional<Fraction> checked(Fraction fraction) {
  if (fraction.over.overflowed() || fraction.by.overflowed()) return std::nullopt;
  return fraction;
}

std::optional<Fraction> divided(const Fraction& a, const Fraction& b) {
  Dim over = a.over * b.by, by = a.by * b.over;
  if (ir::upper_bound(by).value_or(0) < 0) over = Dim(0) - over, by = Dim(0) - by;
  if (ir::lower_bound(by).value_or(0) < 1) return std::nullopt;
  if (const auto whole = divide(over, by)) return checked({*whole});
  const bool exact = is_power_of_two(by);
  return checked({std::move(over), std::move(by), !exact});
}

// Whether its multiples of sizes are exact: sizes below 2^20, of at most 4 bits more.
bool is_small_factor(const Dim& dim) {
  auto value = dim.maybe_value();
  while (value && *value != 0 && *value % 2 == 0) value = *value / 2;
  return value && std::abs(*value) < 16;
}

// Whether no term is a product of symbols, which may be large.
bool is_one_size(const Dim& dim) {
  const std::string text = to_string(dim);
  const std::vector<ir::SizeTerm> terms = ir::terms_of(text);
  return std::all_of(terms.begin(), terms.end(),
                     [](const ir::SizeTerm& term) { return term.factors.size() <= 1; });
}

std::optional<Fraction> binary(Op op, const Fraction& a, const Fraction& b) {
  if (a.rounded || b.rounded) return std::nullopt;
  switch (op) {
    case Op::Add:
      return checked({a.over * b.by + b.over * a.by, a.by * b.by});
    case Op::Sub:
      return checked({a.over * b.by - b.over * a.by, a.by * b.by});
    case Op::Mul:
      if (!is_small_factor(a.over) && !is_small_factor(b.over)) return std::nullopt;
      return checked({a.over * b.over, a.by * b.by});
    case Op::Div:
      return divided(a, b);
    case Op::Max:
      return checked({ir::maximum(a.over * b.by, b.over * a.by), a.by * b.by});
    case Op::Min:
      return checked({ir::minimum(a.over * b.by, b.over * a.by), a.by * b.by});
    default:
      return std::nullopt;
  }
}

std::optional<Fraction> whole(Op op, const Fraction& x) {
  if (x.by.is(1)) return x;
  switch (op) {
    case Op::Floor:
      return checked({ir::floor_div(x.over, x.by)});
    case Op::Ceil:
      return checked({ir::ceil_div(x.over, x.by)});
    case Op::Cast: {  // towards 0
      const Dim above = ir::floor_div(ir::maximum(x.over, 0), x.by);
      return checked({above - ir::floor_div(ir::maximum(Dim(0) - x.over, 0), x.by)});
    }
    default:
      return std::nullopt;
  }
}

class Reader {
 public:
  explicit Reader(const ir::Graph& graph) : graph_(graph) {}

  std::optional<Fractions> read(Value value, int depth = 0) const {
    const ir::Node& node = graph_[value];
    const ir::Type& type = node.type;
    const auto count = ir::element_count(type.shape).maybe_value();
    if (depth > kDeepest || type.shape.size() > 1 || !count ||
        *count > static_cast<int64_t>(kMostElements) ||
        (!is_wide_float(type.dtype) && !holds_sizes(type.dtype)))
      return std::nullopt;
    switch (node.op) {
      case Op::Constant:
        return constant(node);
      case Op::Arange:
        if (*count != 1 || !is_one_size(node.get<ir::ShapeAttrs>().shape[0])) return std::nullopt;
        return Fractions{{node.get<ir::ShapeAttrs>().shape[0]}};
      case Op::Reshape:
        return read(node.operands[0], depth + 1);
      case Op::Concat:
        return joined(node, depth);
      case Op::Cast:
        return cast(node, depth);
      case Op::Ceil:
      case Op::Floor:
        return each(read(node.operands[0], depth + 1),
                    [&](const Fraction& x) { return whole(node.op, x); });
      case Op::Neg:
        return each(read(node.operands[0], depth + 1), [](const Fraction& x) {
          return checked({Dim(0) - x.over, x.by, x.rounded});
        });
      default:
        return node.operands.size() == 2 && is_wide_float(type.dtype) ? pairs(node, depth)
                                                                      : std::nullopt;
    }
  }

 private:
  template <class F>
  static std::optional<Fractions> each(std::optional<Fractions> values, F f) {
    if (!values) return std::nullopt;
    for (Fraction& value : *values) {
      auto result = f(value);
      if (!result) return std::nullopt;
      value = *std::move(result);
    }
    return values;
  }

  static std::optional<Fractions> constant(const ir::Node& node) {
    Fractions values;
    const int64_t count = node.tensor ? node.tensor->size() : 1;
    for (int64_t i = 0; i < count; ++i) {
      const double number = node.literal ? node.literal->value : node.tensor->number_at(i);
      const auto value = fraction_of(number);
      if (!value) return std::nullopt;
      values.push_back(*value);
    }
    return values;
  }

  std::optional<Fractions> joined(const ir::Node& node, int depth) const {
    Fractions values;
    for (const Value operand : node.operands) {
      const auto part = read(operand, depth + 1);
      if (!part) return std::nullopt;
      values.insert(values.end(), part->begin(), part->end());
    }
    return values;
  }

  std::optional<Fractions> cast(const ir::Node& node, int depth) const {
    const DType from = graph_.type(node.operands[0]).dtype, to = node.type.dtype;
    auto values = read(node.operands[0], depth + 1);
    if (holds_sizes(to))
      return each(std::move(values), [](const Fraction& x) { return whole(Op::Cast, x); });
    // A rounded f32 is no f64 that is rounded once, nor is the other way.
    return each(std::move(values), [&](const Fraction& x) {
      return x.rounded && from != to ? std::nullopt : std::optional(x);
    });
  }

  std::optional<Fractions> pairs(const ir::Node& node, int depth) const {
    const auto a = read(node.operands[0], depth + 1), b = read(node.operands[1], depth + 1);
    if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1))
      return std::nullopt;
    Fractions values;
    for (size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
      auto value = binary(node.op, (*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]);
      if (!value) return std::nullopt;
      values.push_back(*std::move(value));
    }
    return values;
  }

  const ir::Graph& graph_;
};

}  // namespace

std::optional<std::vector<Dim>> sizes_through_floats(const ir::Graph& graph, Value value) {
  if (!holds_sizes(graph.type(value).dtype)) return std::nullopt;
  const auto values = Reader(graph).read(value);
  if (!values) return std::nullopt;
  std::vector<Dim> sizes;
  for (const Fraction& each : *values) {
    if (!each.by.is(1)) return std::nullopt;
    sizes.push_back(each.over);
  }
  return sizes;
}

}  // namespace attacca::import
