// The loops of reduce.hpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/kernels/reduce.cpp"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "run/cpu/kernels/reduce.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using ir::Op;

template <class T>
using Widest = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

// One reduction of lanes of type T.
template <Op kOp, class T>
struct Fold {
  static constexpr bool kSum = kOp == Op::Sum;
  static constexpr bool kFloat = std::is_floating_point_v<T>;
  static constexpr bool kWidens = kSum || (kOp == Op::AMax && !kFloat);
  using Total = std::conditional_t<kWidens, Widest<T>, T>;
  using D = hn::ScalableTag<Total>;
  using V = hn::VFromD<D>;

  static Total first() {
    using Limits = std::numeric_limits<T>;
    if constexpr (kOp == Op::ReduceMax) return kFloat ? -Limits::infinity() : Limits::lowest();
    if constexpr (kOp == Op::ReduceMin) return kFloat ? Limits::infinity() : Limits::max();
    return 0;
  }

  static Total step(Total total, Total x) {
    if constexpr (kSum && kFloat) return total + x;
    if constexpr (kSum)
      return static_cast<Total>(static_cast<uint64_t>(total) + static_cast<uint64_t>(x));
    if constexpr (kOp == Op::AMax && kFloat) x = std::fabs(x);
    if constexpr (kOp == Op::AMax && !kFloat)
      x = x < 0 ? static_cast<Total>(0 - static_cast<uint64_t>(x)) : x;
    if (x != x) return x;
    return (kOp == Op::ReduceMin ? x < total : x > total) ? x : total;
  }

  static HWY_INLINE V step(D d, V total, V x) {
    if constexpr (kSum) return hn::Add(total, x);
    if constexpr (kOp == Op::AMax)
      x = kFloat ? hn::Abs(x) : hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Neg(x), x);
    const auto better = kOp == Op::ReduceMin ? hn::Lt(x, total) : hn::Gt(x, total);
    if constexpr (kFloat) return hn::IfThenElse(hn::Or(hn::IsNaN(x), better), x, total);
    return hn::IfThenElse(better, x, total);
  }

  static HWY_INLINE V load(D d, const T* from) {
    if constexpr (std::is_same_v<T, Total>)
      return hn::LoadU(d, from);
    else
      return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, D>(), from));
  }

  static void start(void* totals, size_t count) {
    for (size_t i = 0; i < count; ++i) static_cast<Total*>(totals)[i] = first();
  }

  static void ordered_row(const void* lanes, size_t count, void* total) {
    const auto* in = static_cast<const T*>(lanes);
    Total sum = *static_cast<Total*>(total);
    for (size_t i = 0; i < count; ++i) sum = step(sum, static_cast<Total>(in[i]));
    *static_cast<Total*>(total) = sum;
  }

  // Four totals, since each addition waits for the one before.
  static void row(const void* lanes, size_t count, void* total) {
    const D d;
    const size_t width = hn::Lanes(d);
    if (count < width) return ordered_row(lanes, count, total);
    const auto* in = static_cast<const T*>(lanes);
    V t0 = hn::Set(d, first()), t1 = t0, t2 = t0, t3 = t0;
    size_t i = 0;
    for (; i + 4 * width <= count; i += 4 * width) {
      t0 = step(d, t0, load(d, in + i));
      t1 = step(d, t1, load(d, in + i + width));
      t2 = step(d, t2, load(d, in + i + 2 * width));
      t3 = step(d, t3, load(d, in + i + 3 * width));
    }
    for (; i + width <= count; i += width) t0 = step(d, t0, load(d, in + i));
    HWY_ALIGN Total parts[HWY_MAX_BYTES / sizeof(Total)];
    hn::Store(step(d, step(d, t0, t1), step(d, t2, t3)), d, parts);
    Total sum = first();
    for (size_t k = 0; k < width; ++k) sum = step(sum, parts[k]);
    for (; i < count; ++i) sum = step(sum, static_cast<Total>(in[i]));
    if constexpr (kFloat && !kSum && kOp != Op::AMax)
      if (sum == 0) sum = *std::find(in, in + count, T{0});
    join(&sum, total);
  }

  static void columns(const void* lanes, size_t count, void* totals) {
    const D d;
    const size_t width = hn::Lanes(d);
    const auto* in = static_cast<const T*>(lanes);
    auto* to = static_cast<Total*>(totals);
    size_t i = 0;
    for (; i + width <= count; i += width)
      hn::StoreU(step(d, hn::LoadU(d, to + i), load(d, in + i)), d, to + i);
    for (; i < count; ++i) to[i] = step(to[i], static_cast<Total>(in[i]));
  }

  static void join(const void* from, void* into) {
    auto& total = *static_cast<Total*>(into);
    total = step(total, *static_cast<const Total*>(from));
  }

  static void finish(const void* totals, size_t count, double divisor, void* lanes) {
    const auto* from = static_cast<const Total*>(totals);
    auto* to = static_cast<T*>(lanes);
    for (size_t i = 0; i < count; ++i) {
      if constexpr (kFloat && kSum)
        to[i] = static_cast<T>(from[i] / divisor);
      else
        to[i] = static_cast<T>(from[i]);
    }
  }

  static constexpr Reducer kTable{sizeof(Total), start, row, ordered_row, columns, join, finish};
};

template <Op kOp>
const Reducer* of_lane(Lane lane) {
  switch (lane) {
    case Lane::F32:
      return &Fold<kOp, float>::kTable;
    case Lane::S32:
      return &Fold<kOp, int32_t>::kTable;
    case Lane::F64:
      return &Fold<kOp, double>::kTable;
    case Lane::S64:
      return &Fold<kOp, int64_t>::kTable;
  }
  return nullptr;
}

}  // namespace

const Reducer* find_reducer(Op op, Lane lane) {
  switch (op) {
    case Op::Sum:
      return of_lane<Op::Sum>(lane);
    case Op::ReduceMax:
      return of_lane<Op::ReduceMax>(lane);
    case Op::ReduceMin:
      return of_lane<Op::ReduceMin>(lane);
    default:
      return of_lane<Op::AMax>(lane);
  }
}

}  // namespace attacca::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::run {

HWY_EXPORT(find_reducer);

const Reducer& reducer(ir::Op op, Lane lane) {
  return *HWY_DYNAMIC_DISPATCH(find_reducer)(op, lane);
}

}  // namespace attacca::run
#endif
