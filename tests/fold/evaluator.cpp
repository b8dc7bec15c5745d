#include "evaluator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "fmt/format.h"

#include "wide.hpp"

namespace attacca::fold {
namespace {

using ir::Op;
using std::cos, std::erf, std::erfc, std::exp, std::expm1, std::log, std::log1p, std::pow, std::sin,
    std::sqrt, std::tanh;

constexpr double kEpsilon = 2e-15;  // of one function, relative
constexpr double kTiny = 1e-290;    // below it relative errors say nothing

template <class T>
T least(T x, T y) {
  return is_nan(x) || x < y ? x : y;
}
template <class T>
T most(T x, T y) {
  return is_nan(x) || x > y ? x : y;
}
template <class T>
T between(T x, T low, T high) {
  return least(most(x, low), high);
}
template <class T>
T logistic(T x) {
  return T(1) / (T(1) + exp(-x));
}
template <class T>
T normal_cdf(T x) {
  return T(0.5) * erfc(-x * T(0.70710678118654752440));
}
template <class T>
T tanh_gelu(T x) {
  return x * logistic(T(1.5957691216057307117) * (x + T(0.044715) * (x * x * x)));
}
template <class T>
T soft_plus(T x) {
  return is_nan(x) ? x : most(x, T(0)) + log1p(exp(x > T(0) ? -x : x));
}

template <class T>
T apply(Op op, const std::vector<T>& x, const std::vector<double>& p) {
  const auto low = [&] { return x[0] < T(0); };
  switch (op) {
    case Op::Neg:
      return -x[0];
    case Op::Abs:
      return low() ? -x[0] : x[0] + T(0);
    case Op::Sign:
      return is_nan(x[0]) ? x[0] : T(low() ? -1 : x[0] > T(0) ? 1 : 0);
    case Op::Reciprocal:
      return T(1) / x[0];
    case Op::Square:
      return x[0] * x[0];
    case Op::Sqrt:
      return sqrt(x[0]);
    case Op::Rsqrt:
      return T(1) / sqrt(x[0]);
    case Op::Exp:
      return exp(x[0]);
    case Op::Expm1:
      return expm1(x[0]);
    case Op::Log:
      return log(x[0]);
    case Op::Log1p:
      return log1p(x[0]);
    case Op::Sin:
      return sin(x[0]);
    case Op::Cos:
      return cos(x[0]);
    case Op::Erf:
      return erf(x[0]);
    case Op::Erfc:
      return erfc(x[0]);
    case Op::Tanh:
      return tanh(x[0]);
    case Op::Floor:
      return rounded(x[0], std::floor);
    case Op::Ceil:
      return rounded(x[0], std::ceil);
    case Op::Round:
      return rounded(x[0], std::nearbyint);
    case Op::Sigmoid:
      return logistic(x[0]);
    case Op::Silu:
      return x[0] * logistic(T(p[0]) * x[0]);
    case Op::Gelu:
      return x[0] * normal_cdf(x[0]);
    case Op::GeluTanh:
      return tanh_gelu(x[0]);
    case Op::QuickGelu:
      return x[0] * logistic(T(1.702) * x[0]);
    case Op::Softplus:
      return soft_plus(x[0]);
    case Op::Mish:
      return x[0] * tanh(soft_plus(x[0]));
    case Op::HardSwish:
      return x[0] * (between(x[0] + T(3), T(0), T(6)) / T(6));
    case Op::HardSigmoid:
      return between(T(p[0]) * x[0] + T(p[1]), T(0), T(1));
    case Op::Relu:
      return most(x[0], T(0));
    case Op::Relu6:
      return between(x[0], T(0), T(6));
    case Op::LeakyRelu:
      return low() ? T(p[0]) * x[0] : x[0];
    case Op::Elu:
      return low() ? T(p[0]) * expm1(x[0]) : x[0];
    case Op::Selu:
      return T(1.0507009873554804934) * (low() ? T(1.6732632423543772848) * expm1(x[0]) : x[0]);
    case Op::Clamp:
      return between(x[0], T(p[0]), T(p[1]));
    case Op::Add:
      return x[0] + x[1];
    case Op::Sub:
      return x[0] - x[1];
    case Op::Mul:
      return x[0] * x[1];
    case Op::Div:
      return x[0] / x[1];
    case Op::Pow:
      return pow(x[0], x[1]);
    case Op::Max:
      return is_nan(x[1]) ? x[1] : most(x[0], x[1]);
    case Op::Min:
      return is_nan(x[1]) ? x[1] : least(x[0], x[1]);
    case Op::Lt:
      return T(x[0] < x[1]);
    case Op::Le:
      return T(x[0] <= x[1]);
    case Op::Gt:
      return T(x[0] > x[1]);
    case Op::Ge:
      return T(x[0] >= x[1]);
    case Op::Where:
      return x[0] == T(0) ? x[2] : x[1];
    case Op::SwiGlu:
      return x[0] * logistic(T(p[0]) * x[0]) * x[1];
    case Op::GeGlu:
      return x[0] * normal_cdf(x[0]) * x[1];
    case Op::GeGluTanh:
      return tanh_gelu(x[0]) * x[1];
    case Op::ReGlu:
      return most(x[0], T(0)) * x[1];
    case Op::ClampedSwiGlu: {
      const T gate = least(x[0], T(p[1]));
      return gate * logistic(T(p[0]) * gate) * (between(x[1], T(-p[1]), T(p[1])) + T(p[2]));
    }
    default:
      throw std::runtime_error("the evaluator lacks an op");
  }
}

enum class Zeros { AsTheyAre, Positive, Negative };

double with_sign(double x, Zeros zeros) {
  return x != 0 || zeros == Zeros::AsTheyAre ? x : zeros == Zeros::Positive ? 0.0 : -0.0;
}

// Whether a result is exact: a comparison, or one of the operands.
bool selects(Op op) {
  switch (op) {
    case Op::Lt:
    case Op::Le:
    case Op::Gt:
    case Op::Ge:
    case Op::Where:
    case Op::Max:
    case Op::Min:
    case Op::Clamp:
    case Op::Relu:
    case Op::Relu6:
    case Op::Neg:
    case Op::Abs:
      return true;
    default:
      return false;
  }
}

bool alike(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

// The error of a result that errors of the operands cause, moved one at a time and all at once.
double propagated(Op op, const std::vector<double>& x, const std::vector<double>& errors,
                  const std::vector<double>& params, double value) {
  double total = 0;
  const auto move = [&](size_t first, size_t last) {
    double moved = 0;
    for (const double sign : {1.0, -1.0}) {
      std::vector<double> at = x;
      for (size_t i = first; i < last; ++i)
        if (errors[i] != 0) at[i] = op == Op::Where && i == 0 ? 1 - x[i] : x[i] + sign * errors[i];
      const double result = apply(op, at, params);
      if (alike(result, value)) continue;
      const double off = std::fabs(result - value);
      moved = std::isnan(off) ? HUGE_VAL : std::max(moved, off);
    }
    total += moved;
  };
  if (std::all_of(errors.begin(), errors.end(), [](double e) { return e == 0; })) return 0;
  for (const double error : errors)
    if (std::isinf(error)) return HUGE_VAL;
  for (size_t i = 0; i < x.size(); ++i)
    if (errors[i] != 0) move(i, i + 1);
  move(0, x.size());
  return total;
}

// The error of a result that errors of the parameters cause, which are a graph's literals.
double of_params(Op op, const std::vector<double>& x, const std::vector<double>& params,
                 const LiteralError& literals, double value) {
  double total = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    std::vector<double> moved = params;
    moved[i] += literals(params[i]) * params[i];
    const double off = std::fabs(apply(op, x, moved) - value);
    if (std::isfinite(off)) total += off;
  }
  return total;
}

Evaluated run(const ir::Graph& graph, const Inputs& inputs, const LiteralError& literals,
              Zeros zeros) {
  std::vector<double> values(graph.size()), errors(graph.size());
  Evaluated result;
  for (uint32_t id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.nodes()[id];
    double& value = values[id];
    if (node.op == Op::Input) {
      value = with_sign(inputs.at(node.name), zeros);
    } else if (node.op == Op::Constant) {
      value = with_sign(node.literal ? node.literal->value : node.tensor->number_at(0), zeros);
      if (literals) errors[id] = literals(value) * std::fabs(value);
    } else {
      std::vector<double> x, x_errors;
      for (const ir::Value operand : node.operands) {
        x.push_back(values[operand.id]);
        x_errors.push_back(errors[operand.id]);
      }
      const auto& params = node.params();
      value = with_sign(apply(node.op, x, params), zeros);
      const bool finite =
          std::all_of(x.begin(), x.end(), [](double v) { return std::isfinite(v); });
      const bool zero = std::any_of(x.begin(), x.end(), [](double v) { return v == 0; });
      const bool small = node.op == Op::Exp || (!zero && ir::info(node.op).max_arity <= 2);
      result.pole |= zero && (std::isinf(value) || std::isnan(value));
      for (size_t i = 0; i < x.size(); ++i)
        result.near_pole |= x[i] == 0 && x_errors[i] > 0 && !std::isfinite(value);
      const bool pole = node.op == Op::Log || node.op == Op::Log1p || zero;
      result.by_size |= finite && ((std::isinf(value) && (!pole || node.op == Op::Exp)) ||
                                   (std::fabs(value) < kTiny && small));
      errors[id] = propagated(node.op, x, x_errors, params, value);
      if (literals) errors[id] += of_params(node.op, x, params, literals, value);
      if (std::isfinite(value) && !selects(node.op)) errors[id] += kEpsilon * std::fabs(value);
    }
  }
  const uint32_t output = graph.outputs()[0].value.id;
  result.value = values[output];
  result.error = errors[output];
  return result;
}

bool near(double a, double b, double error) {
  if (alike(a, b)) return true;
  return std::isfinite(a) && std::isfinite(b) && std::fabs(a - b) <= error;
}

}  // namespace

Evaluated evaluated(const ir::Graph& graph, const Inputs& inputs, const LiteralError& literals) {
  Evaluated result = run(graph, inputs, literals, Zeros::AsTheyAre);
  for (const Zeros zeros : {Zeros::Positive, Zeros::Negative})
    result.zero_sign |=
        !near(run(graph, inputs, literals, zeros).value, result.value, result.error);
  return result;
}

double limit_of(const ir::Graph& graph, const Inputs& inputs, double large) {
  std::vector<Wide> values(graph.size());
  for (uint32_t id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.nodes()[id];
    if (node.op == Op::Input) {
      const double given = inputs.at(node.name);
      values[id] = std::isinf(given) ? std::copysign(large, given) : given;
    } else if (node.op == Op::Constant) {
      values[id] = node.literal ? node.literal->value : node.tensor->number_at(0);
    } else {
      std::vector<Wide> x;
      for (const ir::Value operand : node.operands) x.push_back(values[operand.id]);
      values[id] = apply(node.op, x, node.params());
      // Beyond the range in which exponents are exact.
      if (std::isinf(values[id].m) || std::fabs(values[id].e) > 1e13)
        return std::numeric_limits<double>::quiet_NaN();
    }
  }
  return values[graph.outputs()[0].value.id].number();
}

std::vector<double> special_numbers(std::vector<double> moderate) {
  std::vector<double> numbers = {std::numeric_limits<double>::quiet_NaN()};
  moderate.insert(moderate.end(), {0, HUGE_VAL, 1e300, std::numeric_limits<double>::max(), 1e-200,
                                   std::numeric_limits<double>::min(), 4e-310});
  for (const double number : moderate) numbers.insert(numbers.end(), {number, -number});
  return numbers;
}

Compared compare(const ir::Graph& before, const ir::Graph& after, const Inputs& inputs,
                 const LiteralError& literals) {
  const Evaluated old = evaluated(before, inputs, literals);
  const Evaluated now = run(after, inputs, literals, Zeros::AsTheyAre);
  const double error = 8 * (old.error + now.error) + kTiny;
  Compared result{Verdict::Unknown,
                  fmt::format("{} became {} (rounding: {})", old.value, now.value, error)};
  const auto is = [&](Verdict verdict) {
    result.verdict = verdict;
    return result;
  };
  const bool nan = std::isnan(old.value) != std::isnan(now.value);
  if (std::isinf(old.error)) return result;
  if (near(old.value, now.value, error)) return is(Verdict::Same);
  if (old.zero_sign || now.near_pole || (!nan && std::isinf(now.error))) return result;
  if (old.pole && std::isinf(old.value) && std::isinf(now.value)) return result;
  // If all other inputs are of moderate size, infinite inputs are replaced by large ones.
  Inputs finite = inputs;
  int infinite = 0;
  bool moderate = true;
  for (auto& [name, input] : finite) {
    infinite += std::isinf(input);
    moderate &= std::isinf(input) || std::fabs(std::log10(std::fabs(input))) < 3;
    if (std::isinf(input)) input = std::copysign(1e300, input);
  }
  if (!moderate && (infinite > 0 || now.by_size)) return result;
  const Evaluated nearby = infinite > 0 ? run(before, finite, literals, Zeros::AsTheyAre) : old;
  const bool as_nearby = std::isnan(old.value) == std::isnan(nearby.value) &&
                         std::isinf(old.value) == std::isinf(nearby.value);
  if ((infinite > 1 && nearby.by_size) || (infinite > 0 && old.by_size)) return result;
  if (!old.by_size && !(nearby.by_size && as_nearby))
    return is(nan ? Verdict::Nan : Verdict::Differs);
  bool known = false;
  for (const double large : {1e12, 1e300}) {
    const double limit = limit_of(before, inputs, large);
    if (std::isnan(limit)) continue;
    known = infinite == 0 || large > 1e100;
    result.values += fmt::format(", the limit is {}", limit);
    const double trend = infinite == 0 ? 1e250 : std::pow(large, 0.25);
    const bool far = std::fabs(limit) > trend && std::fabs(now.value) > 1e250 &&
                     std::signbit(limit) == std::signbit(now.value);
    const bool vanishes = infinite > 0 && now.value == 0 && std::fabs(limit) < 1 / trend;
    if (far || vanishes || near(limit, now.value, error + 1e-2 * std::fabs(limit) + 1e-12))
      return is(Verdict::Limit);
  }
  if (!known || now.by_size || std::isinf(now.error)) return result;
  return is(nan ? Verdict::Nan : Verdict::Differs);
}

}  // namespace attacca::fold
