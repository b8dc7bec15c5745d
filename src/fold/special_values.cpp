#include "fold/special_values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace attacca::fold {
namespace {

using ir::Op;
using ir::Value;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kHuge = std::numeric_limits<double>::max();
constexpr double kLarge = 1e300;     // 2 * kLarge does not overflow
constexpr double kSmall = 4e-310;    // 1 / kSmall does
constexpr size_t kMaxOpened = 256;   // values between the two expressions and what both depend on
constexpr size_t kMaxSamples = 256;  // of several values; of one or two, all combinations
constexpr int kMaxDepth = 8;         // of an argument why a value is never negative

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// No -20: there 1 + tanh(x) rounds to 0, and times infinity 0 is NaN.
constexpr double kFloats[] = {0.75,  -0.75,  0,      -0.0,    kInfinity, -kInfinity,
                              kHuge, -kHuge, kSmall, -kSmall, 3.5,       kNan};
constexpr double kNotNegative[] = {0.75, 0, kInfinity, kHuge, kSmall, 2.5, kNan};
// Where exp(x) is finite and exp(2 * x) or its square is not.
constexpr double kExponents[] = {0.75, -0.75, 2.5, 100, -100, 200, -200, 400, -400};
constexpr double kIntegers[] = {0, 1, -2, 100};
constexpr double kBools[] = {0, 1};

std::optional<double> number_of(const ir::Node& node) {
  if (node.literal) return node.literal->value;
  if (!node.tensor || node.tensor->size() != 1 || !ir::is_float(node.type.dtype))
    return std::nullopt;
  return node.tensor->number_at(0);
}

// Whether a value is NaN, +0 or more, whatever the inputs.
bool never_negative(const ir::Graph& graph, Value value, int depth = kMaxDepth) {
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
    case Op::Clamp:
      return node.attrs.params[0] > 0 && node.attrs.params[1] > 0;
    case Op::Cast:
      return ir::is_float(graph.type(node.operands[0]).dtype) && operand(0);
    case Op::Sqrt:
    case Op::Sum:
    case Op::Mean:
    case Op::ReduceMax:
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
  bool by_size = false;  // something overflowed or underflowed on the way
};

// Two expressions over common values, in the order of evaluation.
class Comparison {
 public:
  // Opens values, the latest first, until both expressions are over the same ones.
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

  bool holds() { return holds_for(kFloats, kNotNegative) && holds_for(kExponents, kNotNegative); }

 private:
  bool holds_for(std::span<const double> floats, std::span<const double> not_negative) {
    std::vector<std::span<const double>> samples;
    for (const Value leaf : leaves_) samples.push_back(samples_of(leaf, floats, not_negative));
    const auto varying = std::count_if(samples.begin(), samples.end(),
                                       [](const auto& values) { return values.size() > 1; });
    if (varying <= 2) return holds_everywhere(samples);
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
    std::vector<size_t> operands;  // slots
    std::vector<double> params;
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
    Step step{node.op, {}, node.attrs.params};
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
        steps_.push_back({Op::Constant, {}, {expression.number}});
        return next_slot_++;
      case Expression::Kind::Apply:
        break;
    }
    Step step{expression.op, {}, expression.params};
    for (const Expression& arg : expression.args) step.operands.push_back(add(arg));
    steps_.push_back(std::move(step));
    return next_slot_++;
  }

  std::span<const double> samples_of(Value leaf, std::span<const double> floats,
                                     std::span<const double> not_negative) {
    const ir::Node& node = graph_[leaf];
    if (const auto number = number_of(node)) {
      numbers_[leaf] = *number;
      return {&numbers_[leaf], 1};
    }
    if (node.type.dtype == ir::DType::Bool) return kBools;
    if (!ir::is_float(node.type.dtype)) return kIntegers;
    return never_negative(graph_, leaf) ? not_negative : floats;
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
    const double replacement = slot_values_[replacement_];
    const bool nan = std::isnan(original.value), infinite = std::isinf(original.value);
    if (nan == std::isnan(replacement) && infinite == std::isinf(replacement)) return true;
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
      if (std::isinf(input)) input = std::copysign(kLarge, input);
    const Outcome original = run(finite);
    return original.by_size && (nan ? std::isnan(original.value) : std::isinf(original.value));
  }

  // Of the original; leaves all slots' values behind.
  Outcome run(std::span<const double> inputs) {
    Outcome outcome;
    slot_values_.assign(inputs.begin(), inputs.end());
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      std::array<double, 3> operands = {};
      for (size_t j = 0; j < step.operands.size(); ++j)
        operands[j] = slot_values_[step.operands[j]];
      const std::span<const double> used(operands.data(), step.operands.size());
      const double value =
          step.op == Op::Constant ? step.params[0] : ir::evaluate(step.op, used, step.params);
      if (i < originals_)
        outcome.by_size |= (std::isinf(value) && overflows(step.op, used)) ||
                           (value == 0 && underflows(step.op, used));
      slot_values_.push_back(value);
    }
    outcome.value = slot_values_[original_];
    return outcome;
  }

  const ir::Graph& graph_;
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
  return comparison && comparison->holds();
}

}  // namespace attacca::fold
