#include "run/cpu/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "run/cpu/kernels/kernel.hpp"
#include "run/cpu/thread_pool.hpp"

namespace attacca::run {
namespace {

using ir::Op;

struct Axis {
  int64_t extent, stride;
};

// A running reduction of numbers, as ir's reference.
struct Numbers {
  static double start(Op op) {
    const double infinity = std::numeric_limits<double>::infinity();
    return op == Op::ReduceMax ? -infinity : op == Op::ReduceMin ? infinity : 0.0;
  }
  template <Op kOp>
  static double step(double total, double v) {
    if constexpr (kOp == Op::Sum || kOp == Op::Mean) return total + v;
    if constexpr (kOp == Op::AMax) v = std::fabs(v);
    if (v != v || total != total) return std::numeric_limits<double>::quiet_NaN();
    if constexpr (kOp == Op::ReduceMin) return v < total ? v : total;
    return v > total ? v : total;
  }
};

struct Integers {
  static int64_t start(Op op) {
    using Limits = std::numeric_limits<int64_t>;
    return op == Op::ReduceMax ? Limits::min() : op == Op::ReduceMin ? Limits::max() : 0;
  }
  template <Op kOp>
  static int64_t step(int64_t total, int64_t v) {
    const auto bits = [](int64_t x) { return static_cast<uint64_t>(x); };
    if constexpr (kOp == Op::Sum || kOp == Op::Mean)
      return static_cast<int64_t>(bits(total) + bits(v));
    if constexpr (kOp == Op::AMax)
      return std::max(total, v < 0 ? static_cast<int64_t>(0 - bits(v)) : v);
    return kOp == Op::ReduceMin ? std::min(total, v) : std::max(total, v);
  }
};

// Outputs are taken several at a time, so that an outer reduction walks memory in rows.
constexpr int64_t kTogether = 64;

class Reduction {
 public:
  Reduction(Op op, const ir::Tensor& from, const std::vector<bool>& reduced, ir::Tensor& to)
      : op_(op), from_(from), to_(to) {
    for (size_t axis = 0; axis < reduced.size(); ++axis) {
      const Axis each{from.shape()[axis], from.strides()[axis]};
      (reduced[axis] ? window_ : kept_).push_back(each);
    }
    for (const Axis& axis : window_) count_ *= axis.extent;
    for (const Axis& axis : kept_) results_ *= axis.extent;
  }

  int64_t results() const { return results_; }

  // Results [begin, end).
  void run(int64_t begin, int64_t end) const {
    switch (op_) {
      case Op::Sum:
      case Op::Mean:
        return dispatch<Op::Sum>(begin, end);
      case Op::ReduceMax:
        return dispatch<Op::ReduceMax>(begin, end);
      case Op::ReduceMin:
        return dispatch<Op::ReduceMin>(begin, end);
      default:
        return dispatch<Op::AMax>(begin, end);
    }
  }

 private:
  template <Op kOp>
  void dispatch(int64_t begin, int64_t end) const {
    switch (from_.dtype()) {
      case ir::DType::F32:
        return reduce_some<kOp, Numbers, double>(
            [p = from_.as<float>()](int64_t at) { return static_cast<double>(p[at]); }, begin, end);
      case ir::DType::F64:
        return reduce_some<kOp, Numbers, double>(
            [p = from_.as<double>()](int64_t at) { return p[at]; }, begin, end);
      case ir::DType::BF16:
        return reduce_some<kOp, Numbers, double>(
            [p = from_.as<uint16_t>()](int64_t at) {
              return static_cast<double>(ir::decode16(ir::DType::BF16, p[at]));
            },
            begin, end);
      case ir::DType::S32:
        return reduce_some<kOp, Integers, int64_t>(
            [p = from_.as<int32_t>()](int64_t at) { return int64_t{p[at]}; }, begin, end);
      default:
        if (ir::is_float(from_.dtype()))
          return reduce_some<kOp, Numbers, double>(
              [this](int64_t at) { return from_.number_at(at); }, begin, end);
        return reduce_some<kOp, Integers, int64_t>(
            [this](int64_t at) { return from_.integer_at(at); }, begin, end);
    }
  }

  template <Op kOp, class Kind, class T, class Read>
  void reduce_some(Read read, int64_t begin, int64_t end) const {
    int64_t offsets[kTogether];
    T totals[kTogether];
    for (int64_t first = begin; first < end; first += kTogether) {
      const int64_t some = std::min(kTogether, end - first);
      for (int64_t i = 0; i < some; ++i) {
        offsets[i] = position(kept_, first + i);
        totals[i] = Kind::start(op_);
      }
      walk<kOp, Kind, T>(read, 0, 0, offsets, totals, some);
      for (int64_t i = 0; i < some; ++i) set(first + i, totals[i]);
    }
  }

  // Adds the window's elements in row-major order to the totals of their results.
  template <Op kOp, class Kind, class T, class Read>
  void walk(Read read, size_t axis, int64_t base, const int64_t* offsets, T* totals,
            int64_t some) const {
    if (axis == window_.size()) {
      for (int64_t i = 0; i < some; ++i)
        totals[i] = Kind::template step<kOp>(totals[i], read(base + offsets[i]));
      return;
    }
    const Axis& each = window_[axis];
    for (int64_t k = 0; k < each.extent; ++k)
      walk<kOp, Kind, T>(read, axis + 1, base + k * each.stride, offsets, totals, some);
  }

  static int64_t position(const std::vector<Axis>& axes, int64_t index) {
    int64_t at = 0;
    for (size_t axis = axes.size(); axis-- > 0;) {
      at += index % axes[axis].extent * axes[axis].stride;
      index /= axes[axis].extent;
    }
    return at;
  }

  void set(int64_t index, double total) const {
    if (op_ == Op::Mean) total /= static_cast<double>(count_);
    to_.set_number(index,
                   to_.dtype() == ir::DType::F64 ? total : ir::round_to(ir::DType::F32, total));
  }
  // The extremum of no elements is the end of the dtype's range, not of s64's.
  void set(int64_t index, int64_t total) const {
    using Limits = std::numeric_limits<int32_t>;
    const bool extremum = op_ == Op::ReduceMax || op_ == Op::ReduceMin;
    if (extremum && to_.dtype() == ir::DType::S32)
      total = std::clamp<int64_t>(total, Limits::min(), Limits::max());
    to_.set_integer(index, total);
  }

  const Op op_;
  const ir::Tensor& from_;
  ir::Tensor& to_;
  std::vector<Axis> kept_, window_;
  int64_t count_ = 1, results_ = 1;
};

}  // namespace

void reduce(Op op, const ir::Tensor& from, const std::vector<bool>& reduced, ir::Tensor& to,
            int threads) {
  const Reduction reduction(op, from, reduced, to);
  const int64_t tasks = (reduction.results() + kTogether - 1) / kTogether;
  ThreadPool::shared().run(threads, tasks, [&](int64_t task) {
    reduction.run(task * kTogether, std::min(reduction.results(), (task + 1) * kTogether));
  });
}

}  // namespace attacca::run
