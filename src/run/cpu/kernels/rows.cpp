// The loops of rows.hpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/kernels/rows.cpp"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

#include <cmath>
#include <limits>

#include "run/cpu/kernels/rows.hpp"
#include "run/cpu/kernels/simd_map-inl.hpp"
#include "run/cpu/kernels/simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {
namespace {

using Single = hn::ScalableTag<float>;
using V = hn::VFromD<Single>;
constexpr Single kLanes;

// A sum of f32 numbers in f64.
#if HWY_TARGET == HWY_SCALAR
struct Total {
  double sum = 0;
  HWY_INLINE void add(V x) { sum += static_cast<double>(hn::GetLane(x)); }
  HWY_INLINE double get() const { return sum; }
};
#else
struct Total {
  using Half = hn::Half<Single>;
  using Wide = hn::Rebind<double, Half>;
  hn::VFromD<Wide> low, high;
  HWY_INLINE Total() : low(hn::Zero(Wide())), high(hn::Zero(Wide())) {}
  HWY_INLINE void add(V x) {
    low = hn::Add(low, hn::PromoteTo(Wide(), hn::LowerHalf(Half(), x)));
    high = hn::Add(high, hn::PromoteTo(Wide(), hn::UpperHalf(Half(), x)));
  }
  HWY_INLINE double get() const { return hn::GetLane(hn::SumOfLanes(Wide(), hn::Add(low, high))); }
};
#endif

// out = f(x, whether a lane counts) for each vector of a row; `out` may be x, or null: nothing is
// stored. The last vector overlaps the one before, whose lanes do not count again.
template <class F>
HWY_INLINE void map_row(const float* x, float* out, size_t n, F f) {
  const size_t width = hn::Lanes(kLanes), whole = n / width * width, rest = n - whole;
  const auto all = hn::FirstN(kLanes, width);
  if (whole == 0) {
    if (n == 0) return;
    const V result = f(load_tail(kLanes, x, n), hn::FirstN(kLanes, n));
    if (out) store_tail(result, kLanes, out, n);
    return;
  }
  const V last = hn::LoadU(kLanes, x + n - width);
  for (size_t i = 0; i < whole; i += width) {
    const V result = f(hn::LoadU(kLanes, x + i), all);
    if (out) hn::StoreU(result, kLanes, out + i);
  }
  if (rest == 0) return;
  const V result = f(last, hn::Not(hn::FirstN(kLanes, width - rest)));
  if (out) hn::StoreU(result, kLanes, out + n - width);
}

// The largest number; NaN may be passed over.
float largest(const float* x, size_t n) {
  const size_t width = hn::Lanes(kLanes);
  constexpr float kLeast = -std::numeric_limits<float>::infinity();
  V most = hn::Set(kLanes, kLeast);
  size_t i = 0;
  for (; i + width <= n; i += width) most = hn::Max(hn::LoadU(kLanes, x + i), most);
  if (i < n && n >= width) most = hn::Max(hn::LoadU(kLanes, x + n - width), most);
  HWY_ALIGN float lanes[kMaxLanes];
  hn::Store(most, kLanes, lanes);
  const float* from = n >= width ? lanes : x;
  float result = kLeast;
  for (size_t k = 0; k < HWY_MIN(n, width); ++k) result = from[k] > result ? from[k] : result;
  return result;
}

// What NaN does to the maximum it does to the sum, too: every element is NaN. Otherwise the sum is
// at least 1, so that its reciprocal gives a quotient that one step corrects.
void softmax(const float* x, float* out, size_t n) {
  const V most = hn::Set(kLanes, largest(x, n));
  // Eight sums of positive numbers in f32 lose about as much as the sum's own rounding.
  Total total;
  V some = hn::Zero(kLanes);
  int sums = 0;
  map_row(x, out, n, [&](V each, auto counts) ATTACCA_INLINE_LAMBDA {
    const V e = exp_not_above_one(kLanes, hn::Sub(each, most));
    some = hn::Add(some, hn::IfThenElseZero(counts, e));
    if (++sums % 8 == 0) {
      total.add(some);
      some = hn::Zero(kLanes);
    }
    return e;
  });
  total.add(some);
  const float sum = static_cast<float>(total.get());
  const V whole = hn::Set(kLanes, sum), part = hn::Set(kLanes, 1 / sum);
  map_row(out, out, n, [&](V e, auto) ATTACCA_INLINE_LAMBDA {
    const V quotient = hn::Mul(e, part);
    return hn::MulAdd(hn::NegMulAdd(quotient, whole, e), part, quotient);
  });
}

float centre(const float* x, float* out, size_t n) {
  Total total, squares;
  map_row(x, nullptr, n, [&](V each, auto counts) ATTACCA_INLINE_LAMBDA {
    total.add(hn::IfThenElseZero(counts, each));
    return each;
  });
  const V mean = hn::Set(kLanes, static_cast<float>(total.get() / static_cast<double>(n)));
  map_row(x, out, n, [&](V each, auto counts) ATTACCA_INLINE_LAMBDA {
    const V centred = hn::Sub(each, mean);
    squares.add(hn::IfThenElseZero(counts, hn::Mul(centred, centred)));
    return centred;
  });
  return static_cast<float>(squares.get() / static_cast<double>(n));
}

float mean_square(const float* x, size_t n) {
  Total squares;
  map_row(x, nullptr, n, [&](V each, auto counts) ATTACCA_INLINE_LAMBDA {
    squares.add(hn::IfThenElseZero(counts, hn::Mul(each, each)));
    return each;
  });
  return static_cast<float>(squares.get() / static_cast<double>(n));
}

constexpr RowKernels kRowKernels{softmax, centre, mean_square};

}  // namespace

const RowKernels* find_row_kernels() {
  return &kRowKernels;
}

}  // namespace attacca::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::run {

HWY_EXPORT(find_row_kernels);

const RowKernels& row_kernels() {
  return *HWY_DYNAMIC_DISPATCH(find_row_kernels)();
}

}  // namespace attacca::run
#endif
