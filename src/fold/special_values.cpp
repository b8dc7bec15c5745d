#include "fold/special_values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "support/immortal.hpp"

namespace attacca::fold {
namespace {

using ir::Op;
using ir::Value;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr size_t kMaxOpened = 256;   // values between the two expressions and what both depend on
constexpr size_t kMaxSamples = 256;  // of several values; of one or two, all combinations
constexpr int kMaxProofDepth = 8;    // of an argument why a value is never negative

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr double kIntegers[] = {0, 1, -2, 100};
constexpr double kBools[] = {0, 1};

// The ranges in which a dtype's arithmetic overflows and underflows, and samples near their ends.
struct Range {
  ir::DType dtype;
  double huge;   // the largest number
  double large;  // 2 * large does not overflow
  std::vector<double> floats, large_floats, exponents, not_negative;

  // 1 / small overflows, and exp(2 * exponent).
  Range(ir::DType dtype, double huge, double large, double small, double exponent)
      : dtype(dtype), huge(huge), large(large) {
    // No -20: there 1 + tanh(x) rounds to 0, and times infinity 0 is NaN.
    floats = {0.75, -0.75, 0, -0.0, kInf, -kInf, huge, -huge, small, -small, 3.5, kNan};
    not_negative = {0.75, 0, kInf, huge, small, 2.5, kNan};
    // The largest of which 2 * x, 10 * x, x / 0.001 and x * x stay in range, or just do not.
    for (const double size : {huge, huge / 2, huge / 16, huge / 4096, std::sqrt(huge) / 2})
      large_floats.insert(large_floats.end(), {size, -size});
    large_floats.insert(large_floats.end(), {0.25, -0.25, 1, 0});
    exponents = {0.75, -0.75, 2.5};
    for (const double part : {4.0, 2.0, 1.0})
      exponents.insert(exponents.end(), {exponent / part, -exponent / part});
  }

  double rounded(double x) const { return dtype == ir::DType::F64 ? x : ir::round_to(dtype, x); }
};

// f64's range, and the one that the node computes in: a constant near the ends of the latter, 6e38
// or 1e-30, is a moderate number in the former.
std::vector<const Range*> ranges_of(const ir::Node& node) {
  const Range& f64 = immortal(
      [] { return Range(ir::DType::F64, std::numeric_limits<double>::max(), 1e300, 4e-310, 400); });
  const Range& f32 = immortal(
      [] { return Range(ir::DType::F32, std::numeric_limits<float>::max(), 1e30, 1e-40, 50); });
  const Range& bf16 = immortal([] { return Range(ir::DType::BF16, 0x1.FEp127, 1e30, 1e-40, 50); });
  const Range& f16 = immortal([] { return Range(ir::DType::F16, 65504, 8192, 1e-5, 6); });
  switch (node.compute().value_or(node.type.dtype == ir::DType::F64 ? ir::DType::F64
                                                                    : ir::DType::F32)) {
    case ir::DType::F32:
      return {&f64, &f32};
    case ir::DType::BF16:
      return {&f64, &bf16};
    case ir::DType::F16:
      return {&f64, &f16};
    default:
      return {&f64};
  }
}

std::optional<double> number_of(const ir::Node& node) {
  if (node.literal) return node.literal->value;
  if (!node.tensor || node.tensor->size() != 1 || !ir::is_float(node.type.dtype))
    return std::nullopt;
  return node.tensor->number_at(0);
}

// Whether each window of a reduction has elements.
bool has_elements(const ir::Graph& graph, const ir::Node& reduction) {
  const ir::Shape& shape = graph.type(reduction.operands[0]).shape;
  const std::vector<int64_t>& axes = reduction.get<ir::ReductionAttrs>().axes;
  return std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
    const ir::Dim& dim = shape[static_cast<size_t>(axis)];
    return dim.is_static() && dim.value() > 0;
  });
}

// Whether a value is NaN, +0 or more, whatever the inputs.
bool never_negative(const ir::Graph& graph, Value value, int depth = kMaxProofDepth) {
  if (depth == 0) return false;
  const ir::Node& node = graph[value];
  const auto operand = [&](size_t i) { return never_negative(graph, node.operands[i], depth - 1); };
  const auto number = [&](size_t i) { return number_of(graph[node.operands[i]]); };
  switch (node.op) {
    case Op::Square:
    case Op::Abs:
    case Op::Exp:
    case Op::Sigmoid:
    case Op::AMax:
      return true;
    case Op::Constant:
      return number_of(node) && !std::signbit(*number_of(node));
    case Op::Mul:
      return node.operands[0] == node.operands[1] || (operand(0) && operand(1));
    case Op::Add:
    case Op::Div:
      return operand(0) && operand(1);
    case Op::Pow:
      return (number(1) && std::fmod(*number(1), 2) == 0) || operand(0);
    case Op::Max:
      return (number(0) && *number(0) > 0) || (number(1) && *number(1) > 0);
    case Op::ReduceMax:  // of nothing it is -inf
      return has_elements(graph, node) && operand(0);
    case Op::Clamp:
      return node.params()[0] > 0 && node.params()[1] > 0;
    case Op::Cast:
      return ir::is_float(graph.type(node.operands[0]).dtype) && operand(0);
    case Op::Sqrt:
    case Op::Sum:
    case Op::Mean:
    case Op::ReduceMin:
    case Op::Reshape:
    case Op::Broadcast:
    case Op::Slice:
    case Op::Permute:
    case Op::Transpose:
      return operand(0);
    default:
      return false;
  }
}

bool all_finite(std::span<const double> numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
}

// Whether op(operands), which is infinite, is so by its size: not at a pole, not of infinities.
bool overflows(Op op, std::span<const double> operands) {
  if (!all_finite(operands)) return false;
  switch (op) {
    case Op::Reciprocal:
    case Op::Rsqrt:
    case Op::Log:
    case Op::Log1p:
      return false;
    case Op::Div:
      return operands[1] != 0;
    case Op::Pow:
      return operands[0] != 0;
    default:
      return true;
  }
}

// Whether op(operands), which is 0, is so by its size.
bool underflows(Op op, std::span<const double> operands) {
  if (!all_finite(operands)) return false;
  const bool zero = std::find(operands.begin(), operands.end(), 0.0) != operands.end();
  switch (op) {
    case Op::Exp:
    case Op::Sigmoid:
    case Op::Erfc:
      return true;
    case Op::Mul:
    case Op::Div:
    case Op::Reciprocal:
    case Op::Square:
    case Op::Pow:
      return !zero;
    default:
      return false;
  }
}

struct Outcome {
  double value = 0;
  bool by_size = false;     // something overflowed or underflowed on the way
  double replacement = 0;   // the other expression's value
  bool overflowed = false;  // on the way to it
};

// Two expressions over common values, in the order of evaluation.
class Comparison {
 public:
  // Expands values, the latest first, until both expressions read the same ones.
  static std::optional<Comparison> make(const ir::Graph& graph, Value value,
                                        const Expression& expression) {
    std::set<Value> original(graph[value].operands.begin(), graph[value].operands.end());
    std::set<Value> replacement;
    collect(expression, replacement);
    std::set<Value> opened, leaves;
    while (original != replacement) {
      if (opened.size() + leaves.size() > kMaxOpened) return std::nullopt;
      const Value latest = std::max(original.empty() ? Value{0} : *original.rbegin(),
                                    replacement.empty() ? Value{0} : *replacement.rbegin());
      const bool can_open = is_computed(graph, latest);
      (can_open ? opened : leaves).insert(latest);
      for (std::set<Value>* open : {&original, &replacement}) {
        if (open->erase(latest) == 0 || !can_open) continue;
        open->insert(graph[latest].operands.begin(), graph[latest].operands.end());
      }
    }
    leaves.insert(original.begin(), original.end());
    return Comparison(graph, value, expression, opened, leaves);
  }

  bool holds_in(const Range& range) {
    range_ = &range;
    for (Step& step : steps_) {
      step.rounded_params = step.params;
      for (double& param : step.rounded_params) param = range.rounded(param);
    }
    return holds_for(range.floats) && holds_for(range.large_floats) && holds_for(range.exponents) &&
           (varying() != 1 || holds_for(thresholds()));
  }

 private:
  size_t varying() const { return leaves_.size() - numbers_.size(); }

  // Where a multiple by one of the constants just overflows, or just does not.
  std::vector<double> thresholds() const {
    std::vector<double> constants, result;
    for (const auto& [leaf, number] : numbers_) constants.push_back(number);
    for (const Step& step : steps_)
      constants.insert(constants.end(), step.rounded_params.begin(), step.rounded_params.end());
    for (const double constant : constants)
      for (const double part : {1.5, -1.5, 0.75, -0.75})
        if (const double sample = range_->rounded(part * (range_->huge / std::fabs(constant)));
            std::isfinite(sample))
          result.push_back(sample);
    return result;
  }

  bool holds_for(std::span<const double> floats) {
    std::vector<std::span<const double>> samples;
    for (const Value leaf : leaves_) samples.push_back(samples_of(leaf, floats));
    if (varying() <= 2) return holds_everywhere(samples);
    uint64_t random = 0x9E3779B97F4A7C15u;
    std::vector<double> inputs(samples.size());
    for (size_t i = 0; i < kMaxSamples; ++i) {
      for (size_t j = 0; j < samples.size(); ++j) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        inputs[j] = samples[j][(random >> 33) % samples[j].size()];
      }
      if (!holds_at(inputs)) return false;
    }
    return true;
  }

  struct Step {
    Op op;
    std::vector<size_t> operands;                // slots
    std::vector<double> params, rounded_params;  // the latter: in the range
  };

  Comparison(const ir::Graph& graph, Value value, const Expression& expression,
             const std::set<Value>& opened, const std::set<Value>& leaves)
      : graph_(graph) {
    for (const Value leaf : leaves) {
      slots_[leaf] = leaves_.size();
      leaves_.push_back(leaf);
    }
    next_slot_ = leaves_.size();
    for (const Value each : opened) slots_[each] = add(steps_, graph[each]);
    original_ = add(steps_, graph[value]);
    originals_ = steps_.size();
    replacement_ = add(expression);
  }

  static bool is_computed(const ir::Graph& graph, Value value) {
    const ir::Node& node = graph[value];
    return ir::is_elementwise(node.op) &&
           (ir::is_float(node.type.dtype) || node.type.dtype == ir::DType::Bool);
  }

  static void collect(const Expression& expression, std::set<Value>& into) {
    if (expression.kind == Expression::Kind::Value) into.insert(expression.value);
    for (const Expression& arg : expression.args) collect(arg, into);
  }

  size_t add(std::vector<Step>& steps, const ir::Node& node) {
    Step step{node.op, {}, node.params(), {}};
    for (const Value operand : node.operands) step.operands.push_back(slots_.at(operand));
    steps.push_back(std::move(step));
    return next_slot_++;
  }

  size_t add(const Expression& expression) {
    switch (expression.kind) {
      case Expression::Kind::Value:
        return slots_.at(expression.value);
      case Expression::Kind::Number:
        // A literal of the replacement, as a step without operands.
        steps_.push_back({Op::Constant, {}, {expression.number}, {}});
        return next_slot_++;
      case Expression::Kind::Apply:
        break;
    }
    Step step{expression.op, {}, expression.params, {}};
    for (const Expression& arg : expression.args) step.operands.push_back(add(arg));
    steps_.push_back(std::move(step));
    return next_slot_++;
  }

  std::span<const double> samples_of(Value leaf, std::span<const double> floats) {
    const ir::Node& node = graph_[leaf];
    if (const auto number = number_of(node)) {
      numbers_[leaf] = range_->rounded(*number);
      return {&numbers_[leaf], 1};
    }
    if (node.type.dtype == ir::DType::Bool) return kBools;
    if (!ir::is_float(node.type.dtype)) return kIntegers;
    return never_negative(graph_, leaf) ? range_->not_negative : floats;
  }

  bool holds_everywhere(std::span<const std::span<const double>> samples) {
    std::vector<double> inputs(samples.size());
    const auto all = [&](const auto& self, size_t i) -> bool {
      if (i == samples.size()) return holds_at(inputs);
      return std::all_of(samples[i].begin(), samples[i].end(), [&](double sample) {
        inputs[i] = sample;
        return self(self, i + 1);
      });
    };
    return all(all, 0);
  }

  bool holds_at(std::span<const double> inputs) {
    const Outcome original = run(inputs);
    const double replacement = original.replacement;
    const bool nan = std::isnan(original.value), infinite = std::isinf(original.value);
    if (nan == std::isnan(replacement) && infinite == std::isinf(replacement))
      return nan || infinite || original.by_size || is_near(original, replacement);
    if (!nan && !(infinite && std::isfinite(replacement))) return false;
    if (std::any_of(inputs.begin(), inputs.end(), [](double x) { return std::isnan(x); }))
      return false;
    return original.by_size || by_size(inputs, nan);
  }

  // Whether the original is not finite since something overflows or underflows, with large numbers
  // for infinities.
  bool by_size(std::span<const double> inputs, bool nan) {
    std::vector<double> finite(inputs.begin(), inputs.end());
    for (double& input : finite)
      if (std::isinf(input)) input = std::copysign(range_->large, input);
    const Outcome original = run(finite);
    return original.by_size && (nan ? std::isnan(original.value) : std::isinf(original.value));
  }

  // Whether a finite value is lost: by an overflow only in the replacement (which tanh(10 * x)
  // tolerates), or as in tanh(x) + 1e-20 where x is 0.
  static bool is_near(const Outcome& original, double replacement) {
    if (!original.overflowed && (replacement != 0 || original.value == 0)) return true;
    return std::fabs(original.value - replacement) <= 1e-2 * std::fabs(original.value);
  }

  Outcome run(std::span<const double> inputs) {
    Outcome outcome;
    slot_values_.assign(inputs.begin(), inputs.end());
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      std::array<double, 3> operands = {};
      for (size_t j = 0; j < step.operands.size(); ++j)
        operands[j] = slot_values_[step.operands[j]];
      const std::span<const double> used(operands.data(), step.operands.size());
      const double value = step.op == Op::Constant
                               ? step.rounded_params[0]
                               : range_->rounded(ir::evaluate(step.op, used, step.rounded_params));
      const bool overflowed = std::isinf(value) && overflows(step.op, used);
      if (i < originals_)
        outcome.by_size |= overflowed || (value == 0 && underflows(step.op, used));
      else
        outcome.overflowed |= overflowed;
      slot_values_.push_back(value);
    }
    outcome.value = slot_values_[original_];
    outcome.replacement = slot_values_[replacement_];
    return outcome;
  }

  const ir::Graph& graph_;
  const Range* range_ = nullptr;
  std::vector<Value> leaves_;
  std::map<Value, size_t> slots_;
  std::map<Value, double> numbers_;  // of leaves that are constants
  std::vector<Step> steps_;          // each makes one slot; those of the original come first
  size_t originals_ = 0, original_ = 0, replacement_ = 0, next_slot_ = 0;
  std::vector<double> slot_values_;
};

}  // namespace

bool keeps_special_values(const ir::Graph& graph, Value value, const Expression& expression) {
  auto comparison = Comparison::make(graph, value, expression);
  if (!comparison) return false;
  const auto ranges = ranges_of(graph[value]);
  return std::all_of(ranges.begin(), ranges.end(),
                     [&](const Range* range) { return comparison->holds_in(*range); });
}

}  // namespace attacca::fold
