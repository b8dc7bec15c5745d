// Float functions over Highway vectors, for every target; each within 2 ulp of the correctly
// rounded f32 unless it says otherwise, without relying on fused multiply-add. Included once per
// target (foreach_target).
#if defined(ATTACCA_RUN_SIMD_MATH_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTACCA_RUN_SIMD_MATH_INL_
#undef ATTACCA_RUN_SIMD_MATH_INL_
#else
#define ATTACCA_RUN_SIMD_MATH_INL_
#endif

#include <cmath>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// c[kFirst] + c[kFirst + 1] x + ..., kCount terms, by Estrin's scheme: the length of the dependency
// chain limits these loops. powers: x, x^2, x^4, x^8.
template <size_t kFirst, size_t kCount, class D, class V, size_t kAll>
HWY_INLINE V polynomial_part(D d, const V (&powers)[4], const hn::TFromD<D> (&c)[kAll]) {
  constexpr size_t kHalf = kCount > 8 ? 8 : kCount > 4 ? 4 : kCount > 2 ? 2 : 1;
  constexpr size_t kPower = kCount > 8 ? 3 : kCount > 4 ? 2 : kCount > 2 ? 1 : 0;
  if constexpr (kCount == 1)
    return hn::Set(d, c[kFirst]);
  else
    return hn::MulAdd(polynomial_part<kFirst + kHalf, kCount - kHalf>(d, powers, c), powers[kPower],
                      polynomial_part<kFirst, kHalf>(d, powers, c));
}
// c[0] + c[1] x + ..., at most 16 terms, the coefficients of lane type.
template <class D, class V, size_t kCount>
HWY_INLINE V polynomial(D d, V x, const hn::TFromD<D> (&c)[kCount]) {
  static_assert(kCount <= 16);
  const V x2 = hn::Mul(x, x);
  const V x4 = hn::Mul(x2, x2);
  const V powers[4] = {x, x2, x4, hn::Mul(x4, x4)};
  return polynomial_part<0, kCount>(d, powers, c);
}

// Bounds that keep NaN: x86's own minimum and maximum give the second operand where one is NaN.
template <class D, class V>
HWY_INLINE V at_most(D d, V x, hn::TFromD<D> bound) {
  const V limit = hn::Set(d, bound);
  if constexpr (HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
    return hn::Min(limit, x);
  else
    return hn::IfThenElse(hn::Gt(x, limit), limit, x);
}
template <class D, class V>
HWY_INLINE V at_least(D d, V x, hn::TFromD<D> bound) {
  const V limit = hn::Set(d, bound);
  if constexpr (HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
    return hn::Max(limit, x);
  else
    return hn::IfThenElse(hn::Lt(x, limit), limit, x);
}

// --- f64, exact to about 1e-10 relative over the range that f32 results need ---

template <class D, class V>
HWY_INLINE V exp_f64(D d, V x) {
  x = at_least(d, at_most(d, x, 200.0), -200.0);
  const V magic = hn::Set(d, 0x1.8p52);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.4426950408889634074), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e42fefa38p-1), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.ef35793c7673p-45), r);
  constexpr double taylor[] = {1.0,         1.0,          1.0 / 2,      1.0 / 6,
                               1.0 / 24,    1.0 / 120,    1.0 / 720,    1.0 / 5040,
                               1.0 / 40320, 1.0 / 362880, 1.0 / 3628800};
  const hn::RebindToUnsigned<D> du;
  const auto exponent =
      hn::ShiftLeft<52>(hn::Add(hn::BitCast(du, shifted), hn::Set(du, uint64_t{1023})));
  return hn::Mul(polynomial(d, r, taylor), hn::BitCast(d, exponent));
}

// The logarithm of a positive normal f64; callers handle 0, negative numbers, infinity and NaN.
template <class D, class V>
HWY_INLINE V log_positive_f64(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto exponent = hn::Or(hn::ShiftRight<52>(bits), hn::Set(du, 0x4330000000000000ull));
  V e = hn::Sub(hn::BitCast(d, exponent), hn::Set(d, 0x1p52 + 1023));
  V m = hn::BitCast(d, hn::Or(hn::And(bits, hn::Set(du, 0x000fffffffffffffull)),
                              hn::Set(du, 0x3ff0000000000000ull)));
  const auto large = hn::Gt(m, hn::Set(d, 1.4142135623730951));
  m = hn::IfThenElse(large, hn::Mul(m, hn::Set(d, 0.5)), m);
  e = hn::IfThenElse(large, hn::Add(e, hn::Set(d, 1.0)), e);
  const V s = hn::Div(hn::Sub(m, hn::Set(d, 1.0)), hn::Add(m, hn::Set(d, 1.0)));
  constexpr double series[] = {2.0,     2.0 / 3,  2.0 / 5,  2.0 / 7,
                               2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15};
  const V log_m = hn::Mul(s, polynomial(d, hn::Mul(s, s), series));
  return hn::MulAdd(e, hn::Set(d, 0.69314718055994530942), log_m);
}

template <class D, class V>
HWY_INLINE V log_f64(D d, V x) {
  const V infinity = hn::Inf(d);
  V result = log_positive_f64(d, x);
  result = hn::IfThenElse(hn::Eq(x, infinity), infinity, result);
  result = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), result);
  const auto in_domain = hn::Ge(x, hn::Zero(d));
  return hn::IfThenElse(in_domain, result, hn::NaN(d));
}

template <class D, class V>
HWY_INLINE V log1p_f64(D d, V x) {
  constexpr double series[] = {1.0, -1.0 / 2, 1.0 / 3, -1.0 / 4};
  const auto small = hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-10));
  return hn::IfThenElse(small, hn::Mul(x, polynomial(d, x, series)),
                        log_f64(d, hn::Add(x, hn::Set(d, 1.0))));
}

template <class D, class V>
HWY_INLINE V expm1_f64(D d, V x) {
  constexpr double series[] = {1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24};
  const auto small = hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-10));
  return hn::IfThenElse(small, hn::Mul(x, polynomial(d, x, series)),
                        hn::Sub(exp_f64(d, x), hn::Set(d, 1.0)));
}

// erfc(a) = exp(-a^2) * t * P(t), t = 1 / (1 + 0.3 a): P interpolates erfcx(a) / t at Chebyshev
// nodes of 0 <= a <= 10.3, to 3e-11.
template <class D, class V>
HWY_INLINE V erfc_f64(D d, V x) {
  constexpr double p[] = {0.16925183037543892,  0.1693924655492107,  0.15999194592968438,
                          0.15840361417411025,  0.06631444007912644, 0.2974537103667072,
                          -0.4217407364441784,  0.9277524518360747,  -1.1240824743275653,
                          1.043682973187642,    -0.6159933703949692, 0.1951034225829001,
                          -0.025530272915286506};
  const V a = at_most(d, hn::Abs(x), 10.3);
  const V one = hn::Set(d, 1.0);
  const V t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.3), a, one));
  V tail = hn::Mul(hn::Mul(exp_f64(d, hn::Neg(hn::Mul(a, a))), t), polynomial(d, t, p));
  tail = hn::IfThenElse(hn::Ge(a, hn::Set(d, 10.3)), hn::Zero(d), tail);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0), tail), tail);
}

// x mod pi/2 with the quadrant in the low bits of `quadrant`. REQUIRES: |x| < 2^20.
template <class D, class V>
HWY_INLINE V reduce_half_pi(D d, V x, hn::VFromD<hn::RebindToUnsigned<D>>& quadrant) {
  const V magic = hn::Set(d, 0x1.8p52);
  const V shifted = hn::MulAdd(x, hn::Set(d, 0.63661977236758134308), magic);
  quadrant = hn::BitCast(hn::RebindToUnsigned<D>(), shifted);
  const V n = hn::Sub(shifted, magic);
  // pi/2 in three parts of at most 33 bits: n times each is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.921fb544p0), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.0b4611a6p-34), r);
  return hn::NegMulAdd(n, hn::Set(d, 0x1.3198a2e037073p-69), r);
}

// sin(x + shift * pi/2).
template <uint64_t kShift, class D, class V>
HWY_INLINE V sine_f64(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  auto quadrant = hn::Zero(du);
  const V r = reduce_half_pi(d, x, quadrant);
  quadrant = hn::Add(quadrant, hn::Set(du, kShift));
  constexpr double sine[] = {1.0,          -1.0 / 6,        1.0 / 120,         -1.0 / 5040,
                             1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800.0};
  constexpr double cosine[] = {1.0,         -1.0 / 2,       1.0 / 24,         -1.0 / 720,
                               1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600.0};
  const V z = hn::Mul(r, r);
  const auto odd =
      hn::RebindMask(d, hn::Ne(hn::And(quadrant, hn::Set(du, uint64_t{1})), hn::Zero(du)));
  const V value = hn::IfThenElse(odd, polynomial(d, z, cosine), hn::Mul(r, polynomial(d, z, sine)));
  const auto sign = hn::ShiftLeft<62>(hn::And(quadrant, hn::Set(du, uint64_t{2})));
  return hn::Xor(value, hn::BitCast(d, sign));
}

// f(d64, x...) applied to f32 vectors widened to f64, half by half.
#if HWY_TARGET == HWY_SCALAR
template <class D, class F, class... V>
HWY_INLINE hn::VFromD<D> in_f64(D d, F f, V... x) {
  const hn::Rebind<double, D> wide;
  return hn::DemoteTo(d, f(wide, hn::PromoteTo(wide, x)...));
}
#else
template <class D, class F, class... V>
HWY_INLINE hn::VFromD<D> in_f64(D d, F f, V... x) {
  const hn::Half<D> half;
  const hn::Rebind<double, decltype(half)> wide;
  const auto low = f(wide, hn::PromoteTo(wide, hn::LowerHalf(half, x))...);
  const auto high = f(wide, hn::PromoteTo(wide, hn::UpperHalf(half, x))...);
  return hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
}
#endif

// --- f32 ---

// p 2^n, 0.5 < p < 2, of an integer n within [-151, 128]; shifted: n + 1.5 2^23.
template <class D, class V>
HWY_INLINE V times_power(D d, V p, [[maybe_unused]] V n, [[maybe_unused]] V shifted) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  if constexpr (sizeof(V) == 64) return V{_mm512_scalef_ps(p.raw, n.raw)};
#endif
  // In two factors: neither is beyond the range.
  const hn::RebindToSigned<D> di;
  const auto whole = hn::Sub(hn::BitCast(di, shifted), hn::Set(di, 0x4B400000));
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(di, 127);
  const V first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  return hn::Mul(hn::Mul(p, first), second);
}

// exp(x + low), |low| < 1e-2: subnormal results too. REQUIRES: -104.5 <= x <= 89, or NaN.
template <class D, class V, class... Low>
HWY_INLINE V exp_within(D d, V x, Low... low) {
  constexpr float tail[] = {0.5f, 0.16666576266288757f, 0.04166655242443085f, 0.008363292552530766f,
                            0.0013926326064392924f};
  const V magic = hn::Set(d, 0x1.8p23f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  // ln 2 in a part of 15 bits, whose multiples by n are exact, and the rest.
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), r);
  ((r = hn::Add(r, low)), ...);
  const V p = hn::Add(hn::MulAdd(hn::Mul(r, r), polynomial(d, r, tail), r), hn::Set(d, 1.0f));
  return times_power(d, p, n, shifted);
}
template <class D, class V, class... Low>
HWY_INLINE V exp_sum(D d, V x, Low... low) {
  return exp_within(d, at_least(d, at_most(d, x, 89.0f), -104.5f), low...);
}

template <class D, class V>
HWY_INLINE V exp_f32(D d, V x) {
  return exp_sum(d, x);
}
// REQUIRES: x <= 0, or NaN.
template <class D, class V>
HWY_INLINE V exp_not_above_one(D d, V x) {
  return exp_within(d, at_least(d, x, -104.5f));
}

template <class D, class V>
HWY_INLINE V expm1_f32(D d, V x) {
  return in_f64(
      d, [](auto dd, auto v) HWY_ATTR __attribute__((always_inline)) { return expm1_f64(dd, v); },
      x);
}
template <class D, class V>
HWY_INLINE V log_f32(D d, V x) {
  return in_f64(
      d, [](auto dd, auto v) HWY_ATTR __attribute__((always_inline)) { return log_f64(dd, v); }, x);
}
template <class D, class V>
HWY_INLINE V log1p_f32(D d, V x) {
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x,
                        in_f64(
                            d, [](auto dd, auto v) HWY_ATTR __attribute__((always_inline)) {
                              return log1p_f64(dd, v);
                            },
                            x));
}
template <class D, class V>
HWY_INLINE V erfc_f32(D d, V x) {
  return in_f64(
      d, [](auto dd, auto v) HWY_ATTR __attribute__((always_inline)) { return erfc_f64(dd, v); },
      x);
}

template <class D, class V>
HWY_INLINE V tanh_f32(D d, V x) {
  constexpr float odd[] = {-0.3333333432674408f,  0.1333329677581787f,    -0.05395759642124176f,
                           0.021755700930953026f, -0.008301695808768272f, 0.0022460035979747772f};
  const V a = hn::Abs(x);
  const V z = hn::Mul(x, x);
  const V near = hn::MulAdd(hn::Mul(x, z), polynomial(d, z, odd), x);
  const V one = hn::Set(d, 1.0f);
  const V e = exp_f32(d, hn::Add(a, a));
  const V far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  // The sign of -0.0 too, which the sum has lost.
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.64f)), near, far), x);
}

// The upper tail of the normal distribution at 0 <= a, to a few ulp down to the smallest normal.
// 1 - normal(a) = exp(-a^2 / 2) * t * P(t), t = 1 / (1 + 0.35 a).
template <class D, class V>
HWY_INLINE V normal_tail(D d, V a) {
  constexpr float p[] = {0.1396186351776123f,   0.13991433382034302f,   0.11942509561777115f,
                         0.10721249878406525f,  -0.027321910485625267f, 0.1655101627111435f,
                         -0.26141053438186646f, 0.1467839926481247f,    -0.029732275754213333f};
  const hn::RebindToUnsigned<D> du;
  a = at_most(d, a, 14.5f);
  // a^2 = head^2 + (a - head) (a + head), head^2 exact in f32.
  const V head = hn::BitCast(d, hn::And(hn::BitCast(du, a), hn::Set(du, 0xFFFFF000u)));
  const V minus_half = hn::Set(d, -0.5f);
  const V square = hn::Mul(hn::Mul(head, head), minus_half);
  const V rest = hn::Mul(hn::Mul(hn::Sub(a, head), hn::Add(a, head)), minus_half);
  const V one = hn::Set(d, 1.0f);
  const V t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.35f), a, one));
  return hn::Mul(exp_sum(d, square, rest), hn::Mul(t, polynomial(d, t, p)));
}

template <class D, class V>
HWY_INLINE V erf_f32(D d, V x) {
  constexpr float even[] = {0.12837916612625122f,    -0.37612637877464294f,
                            0.11283782124519348f,    -0.026865430176258087f,
                            0.005221031606197357f,   -0.0008484080317430198f,
                            0.00011265958892181516f, -9.667044650996104e-06f};
  const V a = hn::Abs(x);
  const V near = hn::MulAdd(x, polynomial(d, hn::Mul(x, x), even), x);
  const V tail = normal_tail(d, hn::Mul(a, hn::Set(d, 1.41421356f)));
  const V far = hn::Sub(hn::Set(d, 1.0f), hn::Add(tail, tail));
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, 1.0f)), near, hn::CopySign(far, x));
}

// Arguments beyond 2^20 go through the C library, lane by lane.
template <class D, class V>
HWY_NOINLINE V sine_by_lane(D d, V x, bool cosine) {
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i)
    lanes[i] = static_cast<float>(cosine ? std::cos(static_cast<double>(lanes[i]))
                                         : std::sin(static_cast<double>(lanes[i])));
  return hn::Load(d, lanes);
}
template <uint64_t kShift, class D, class V>
HWY_INLINE V sine_shifted(D d, V x) {
  const V near = in_f64(
      d, [](auto dd, auto v) HWY_ATTR __attribute__((always_inline)) {
        return sine_f64<kShift>(dd, v);
      },
      x);
  const auto is_near = hn::Lt(hn::Abs(x), hn::Set(d, 0x1p20f));
  if (HWY_LIKELY(hn::AllTrue(d, is_near))) return near;
  return hn::IfThenElse(is_near, near, sine_by_lane(d, x, kShift == 1));
}
template <class D, class V>
HWY_INLINE V sin_f32(D d, V x) {
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, sine_shifted<0>(d, x));
}
template <class D, class V>
HWY_INLINE V cos_f32(D d, V x) {
  return sine_shifted<1>(d, x);
}

}  // namespace attacca::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
