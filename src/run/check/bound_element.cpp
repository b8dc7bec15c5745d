#include <algorithm>
#include <array>
#include <numbers>

#include "run/check/bound_value.hpp"

namespace attacca::run::bound {
namespace {

using ir::DType;
using ir::Op;

// How an op is computed in f32 or f64: exactly (it selects or moves), with one rounding, or by an
// approximation of a few last places whose intermediates round too.
enum class Accuracy : uint8_t { Exact, Rounded, Approximated };

Accuracy accuracy(Op op) {
  switch (op) {
    case Op::Neg:
    case Op::Abs:
    case Op::Sign:
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
    case Op::Relu:
    case Op::Relu6:
    case Op::Clamp:
    case Op::Max:
    case Op::Min:
    case Op::Where:
    case Op::Fmod:
      return Accuracy::Exact;
    case Op::Square:
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Sqrt:
    case Op::LeakyRelu:
      return Accuracy::Rounded;
    default:
      return Accuracy::Approximated;
  }
}

// Where the interval's ends are on both sides of a pole, or far apart on a wave, they do not bound
// the values between.
bool crosses_pole(Op op, size_t operand, std::span<const Element> x) {
  const Element& moved = x[operand];
  const bool over_zero = moved.low <= 0 && moved.high >= 0;
  if (op == Op::Pow) return operand == 0 ? over_zero && !(x[1].low > 0) : !(x[0].low > 0);
  if ((op == Op::Div && operand == 1) || op == Op::Reciprocal || op == Op::Rsqrt) return over_zero;
  if (op == Op::Fmod) return true;
  // The sign of an ordinate beside the negative abscissas decides between pi and -pi.
  if (op == Op::Atan2) return x[0].low <= 0 && x[0].high >= 0 && x[1].low <= 0;
  const auto branch = [](double at) { return std::floor(at * std::numbers::inv_pi + 0.5); };
  if (op == Op::Tan) return !(branch(moved.low) == branch(moved.high));
  return (op == Op::Sin || op == Op::Cos) && !(moved.high - moved.low < 1);
}

bool overlaps(const Element& x, const Element& y) {
  return x.low <= y.high && y.low <= x.high;
}

// One node evaluated at points near the operands.
class Corners {
 public:
  Corners(const ir::Graph& graph, const ir::Node& node, std::span<const Element> x)
      : graph_(graph), node_(node), arity_(x.size()) {
    for (size_t i = 0; i < arity_; ++i) {
      operands_[i] = x[i];
      const DType dtype = graph.type(node.operands[i]).dtype;
      integers_ = integers_ && !ir::is_float(dtype);
      wide_ = wide_ || dtype == DType::F64;
    }
    real_ = ir::is_float(node.type.dtype);
  }

  Element run() {
    if (!integers_) widen_integers();
    for (size_t i = 0; i < arity_; ++i) point_[i] = operands_[i].value;
    value_ = evaluate();
    for (size_t i = 0; i < arity_; ++i)
      if (operands_[i].is_unknown()) return Element::unknown(value_);
    if (gate_underflows()) return Element::unknown(value_);
    if (compares_with_itself()) return Element::exact(value_);
    const bool steps = node_.op != Op::Pow && accuracy(node_.op) == Accuracy::Approximated;
    if (real_ && steps) perturb();
    if (compares_equals()) return {value_, 0, 1, kSpread};
    double alone = 0, spread = 0;
    for (size_t i = 0; i < arity_; ++i) {
      if (operands_[i].is_exact()) continue;
      if (crosses_pole(node_.op, i, {operands_.data(), arity_})) return Element::unknown(value_);
      const double deviation = move_one(i);
      alone += deviation;
      add_spread(spread, i, deviation);
    }
    const double together = move_all();
    if (lost_) return Element::unknown(value_);
    // Where only a change of all operands changes the result (a branch), the parts do not add up.
    return result(std::max(alone, together), spread + std::max(0.0, together - alone));
  }

 private:
  double evaluate() const {
    const std::span<const double> x(point_.data(), arity_);
    if (!integers_) {
      const double y = ir::evaluate(node_.op, x, node_.params());
      return real_ ? y : static_cast<double>(y != 0);
    }
    std::array<int64_t, 3> whole{};
    for (size_t i = 0; i < arity_; ++i)
      whole[i] = ir::to_integer(DType::S64, x[i], ir::Overflow::Saturate);
    const int64_t y =
        ir::evaluate(node_.op, std::span<const int64_t>(whole.data(), arity_), node_.params());
    return static_cast<double>(ir::to_integer(node_.type.dtype, y));
  }

  // An integer operand of a float op is converted to f32, which rounds beyond 2^24, or to f64.
  void widen_integers() {
    for (size_t i = 0; i < arity_; ++i)
      if (!ir::is_float(graph_.type(node_.operands[i]).dtype) &&
          std::max(std::fabs(operands_[i].low), std::fabs(operands_[i].high)) > 0x1p24)
        operands_[i] = stored(operands_[i], wide_ ? DType::F64 : DType::F32);
  }

  // The roundings inside an approximated function count as roundings of its operands.
  void perturb() {
    const Rounding inner =
        wide_ ? Rounding{0x1p-51, 0, kInfinity} : Rounding{0x1p-22, 0, kInfinity};
    for (size_t i = 0; i < arity_; ++i)
      if (std::isfinite(operands_[i].value)) operands_[i] = rounded(operands_[i], inner);
  }

  bool is_gate() const {
    return arity_ == 2 && node_.op != Op::Pow && node_.op != Op::Atan2 &&
           accuracy(node_.op) == Accuracy::Approximated;
  }
  // A gate that is zero in f32 but not in f64, times infinity.
  bool gate_underflows() {
    const Element& linear = operands_[1];
    if (!is_gate() || !(std::isinf(linear.low) || std::isinf(linear.high))) return false;
    point_[1] = 1;
    const double gate = std::fabs(evaluate());
    point_[1] = linear.value;
    return gate > 0 && gate < 0x1p-120;
  }

  // Such as x != x, which is true of NaN alone.
  bool compares_with_itself() const {
    return node_.type.dtype == DType::Bool && arity_ == 2 &&
           node_.operands[0] == node_.operands[1] &&
           ir::is_float(graph_.type(node_.operands[0]).dtype);
  }

  bool compares_equals() const {
    if (node_.op != Op::Eq && node_.op != Op::Ne) return false;
    return !(operands_[0].is_exact() && operands_[1].is_exact()) &&
           overlaps(operands_[0], operands_[1]);
  }

  // The deviation from the value at the current point; notes infinities and loses NaN.
  double deviation() {
    const double y = evaluate();
    if (std::isnan(y) != std::isnan(value_)) lost_ = true;
    if (std::isnan(y) || y == value_) return 0;
    least_ = std::min(least_, y);
    most_ = std::max(most_, y);
    up_ |= y == kInfinity;
    down_ |= y == -kInfinity;
    moved_ = true;
    return std::isfinite(y) && std::isfinite(value_) ? std::fabs(y - value_) : 0;
  }

  double move_one(size_t i) {
    double largest = 0;
    for (const double end : {operands_[i].low, operands_[i].high}) {
      point_[i] = end;
      largest = std::max(largest, deviation());
    }
    point_[i] = operands_[i].value;
    return largest;
  }

  double move_all() {
    size_t inexact = 0;
    for (size_t i = 0; i < arity_; ++i) inexact += !operands_[i].is_exact();
    if (inexact < 2) return 0;
    double largest = 0;
    for (unsigned corner = 0; corner < 1u << arity_; ++corner) {
      for (size_t i = 0; i < arity_; ++i)
        point_[i] = corner >> i & 1 ? operands_[i].high : operands_[i].low;
      largest = std::max(largest, deviation());
    }
    return largest;
  }

  // A value that is read twice has one error: its two effects add.
  void add_spread(double& spread, size_t i, double deviation) const {
    const double error = operands_[i].error();
    const double own = std::isfinite(error) && error > 0 ? deviation * (operands_[i].spread / error)
                                                         : kSpread * deviation;
    const bool again = i > 0 && node_.operands[i] == node_.operands[i - 1];
    spread = again ? spread + own : std::hypot(spread, own);
  }

  Element result(double error, double spread) const {
    if (std::isnan(value_)) return Element::exact(value_);
    if (std::isinf(value_)) {
      if (!moved_) return Element::exact(value_);
      // The interval may hold values of the other sign.
      if ((value_ > 0 ? down_ : up_)) return Element::unknown(value_);
      return value_ > 0 ? Element{value_, least_, kInfinity, kInfinity}
                        : Element{value_, -kInfinity, most_, kInfinity};
    }
    if (!moved_) error = 0;
    // Corners are exact for monotone functions; the others are nearly straight between them.
    error *= accuracy(node_.op) == Accuracy::Approximated ? 1.25 : 1.0 + 0x1p-40;
    Element made{value_, value_ - error, value_ + error, std::max(spread, 0.0)};
    if (error == 0) made = Element::exact(value_);
    if (up_ || down_) {
      made.spread = kInfinity;
      if (up_) made.high = kInfinity;
      if (down_) made.low = -kInfinity;
    }
    if (jumps()) made.spread = std::max(made.spread, kSpread * error);
    if (node_.type.dtype == DType::Bool) {
      made.low = std::max(made.low, 0.0);
      made.high = std::min(made.high, 1.0);
    }
    return real_ ? computed(made) : made;
  }

  // Whether the least error of an operand may change the result by a whole step, which is as likely
  // as none: such errors do not add up as roundings do.
  bool jumps() const {
    constexpr std::array kSteps = {Op::Sign, Op::Floor, Op::Ceil, Op::Round, Op::Fmod};
    return node_.type.dtype == DType::Bool || std::ranges::find(kSteps, node_.op) != kSteps.end();
  }

  // After the op's own rounding, and that of a declared compute type.
  Element computed(const Element& x) const {
    const bool f64 = node_.type.dtype == DType::F64;
    Rounding own = rounding_of(f64 ? DType::F64 : DType::F32);
    const Accuracy how = accuracy(node_.op);
    Element made = x;
    if (is_gate()) own.tiny *= 1 + std::fabs(operands_[1].value);  // the gate may underflow
    if (how == Accuracy::Approximated) own.half_place = f64 ? 0x1p-49 : 0x1p-20;
    // run/cpu/kernels/chain.hpp: a 16-bit GELU of a 16-bit product is computed more coarsely.
    if ((node_.op == Op::Gelu || node_.op == Op::GeGlu) && node_.type.dtype == DType::BF16)
      own.half_place = 0x1p-17;
    if (how != Accuracy::Exact) made = rounded(made, own);
    if (node_.compute()) made = stored(made, *node_.compute());
    return made;
  }

  const ir::Graph& graph_;
  const ir::Node& node_;
  const size_t arity_;
  std::array<Element, 3> operands_{};
  std::array<double, 3> point_{};
  bool integers_ = true, real_ = false, wide_ = false;
  bool lost_ = false, up_ = false, down_ = false, moved_ = false;
  double value_ = 0, least_ = kInfinity, most_ = -kInfinity;
};

}  // namespace

Rounding rounding_of(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return {0x1p-11, 0x1p-25, 65504};
    case DType::BF16:
      return {0x1p-8, 0x1p-126, 0x1.fep127};
    case DType::F8E4M3:
      return {0x1p-4, 0x1p-10, 448};
    case DType::F8E5M2:
      return {0x1p-3, 0x1p-17, 57344};
    case DType::F64:  // the reference is no better
      return {0x1p-51, 0x1p-1074, 0x1.fffffffffffffp1023};
    default:  // subnormals may be flushed
      return {0x1p-24, 0x1p-126, 0x1.fffffep127};
  }
}

Element rounded(const Element& x, const Rounding& to) {
  if (x.is_unknown() || !std::isfinite(x.value)) return x;
  const double error = x.error();
  const double step =
      to.half_place * (std::fabs(x.value) + (std::isfinite(error) ? error : 0)) + to.tiny;
  Element made{x.value, x.low - step, x.high + step, std::hypot(x.spread, kSpread * step)};
  if (made.high > to.largest) made.high = kInfinity;
  if (made.low < -to.largest) made.low = -kInfinity;
  if (std::isinf(made.low) || std::isinf(made.high)) made.spread = kInfinity;
  return made;
}

Element stored(const Element& x, DType dtype) {
  if (!ir::is_float(dtype)) return x;
  if (x.is_exact() && ir::round_to(dtype, x.value) == x.value) return x;
  const Element made = rounded(x, rounding_of(dtype));
  const bool overflow = std::isinf(made.low) || std::isinf(made.high);
  return dtype == DType::F8E4M3 && overflow ? Element::unknown(x.value) : made;
}

Element elementwise(const ir::Graph& graph, const ir::Node& node, std::span<const Element> x) {
  if (node.op == Op::Where && x[0].is_exact()) {
    const Element& chosen = x[0].value != 0 ? x[1] : x[2];
    return node.compute() ? stored(chosen, *node.compute()) : chosen;
  }
  return Corners(graph, node, x).run();
}

Element converted(const Element& x, DType from, DType to, bool saturate) {
  if (x.is_unknown()) return Element::unknown(x.value);
  if (ir::is_float(to)) {
    Element wide = x;
    if (!ir::is_float(from)) wide = rounded(x, rounding_of(to == DType::F64 ? to : DType::F32));
    if (!saturate) return stored(wide, to);
    const double most = rounding_of(to).largest;
    const auto clamp = [&](double v) { return std::isnan(v) ? v : std::clamp(v, -most, most); };
    Element kept = rounded(wide, rounding_of(to));
    kept = {clamp(kept.value), clamp(kept.low), clamp(kept.high), kept.spread};
    if (std::isinf(kept.spread)) kept.spread = kSpread * (kept.high - kept.low);
    return kept;
  }
  const auto overflow = saturate ? ir::Overflow::Saturate : ir::Overflow::Ieee;
  const auto integer = [&](double v, ir::Overflow how) {
    return static_cast<double>(ir::to_integer(to, v, how));
  };
  const double value = integer(x.value, overflow);
  if (x.is_exact()) return Element::exact(value);
  const double low = integer(x.low, overflow), high = integer(x.high, overflow);
  // Beyond the range integers wrap: the ends do not bound the values between.
  const auto is_beyond = [&](double v) {
    return !std::isnan(v) && std::trunc(v) != integer(v, ir::Overflow::Saturate);
  };
  const bool wraps = !saturate && (is_beyond(x.low) || is_beyond(x.high));
  if (to != DType::Bool && wraps) return Element::unknown(value);
  if (low == value && high == value) return Element::exact(value);
  const double jump = std::max(std::fabs(high - value), std::fabs(value - low));
  return {value, std::min(low, value), std::max(high, value), kSpread * jump};
}

}  // namespace attacca::run::bound
