// Activations over f32 vectors, within a few ulp, with a fast path for usual arguments. What a lane
// gets does not depend on the other lanes: these may be of other rows.
#if defined(ATTACCA_RUN_SIMD_ACTIVATIONS_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTACCA_RUN_SIMD_ACTIVATIONS_INL_
#undef ATTACCA_RUN_SIMD_ACTIVATIONS_INL_
#else
#define ATTACCA_RUN_SIMD_ACTIVATIONS_INL_
#endif

#include "hwy/highway.h"

#include "run/cpu/kernels/chain.hpp"
#include "run/cpu/kernels/simd_map-inl.hpp"
#include "run/cpu/kernels/simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// exp(x) for |x| < 87, without checks of bounds and without subnormals.
template <class D, class V>
HWY_INLINE V exp_near(D d, V x) {
  constexpr float tail[] = {0.5f, 0.16666576266288757f, 0.04166655242443085f, 0.008363292552530766f,
                            0.0013926326064392924f};
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 0x1.8p23f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e4p-1f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.7f7d1cp-20f), r);
  const V p = hn::Add(hn::MulAdd(hn::Mul(r, r), polynomial(d, r, tail), r), hn::Set(d, 1.0f));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

// near where `magnitude` is below the bound, and far(), which is computed only if a lane needs it.
template <class D, class V, class Far>
HWY_INLINE V near_or_far(D d, V magnitude, float bound, V near, Far far) {
  const auto is_near = hn::Lt(magnitude, hn::Set(d, bound));
  return HWY_LIKELY(hn::AllTrue(d, is_near)) ? near : hn::IfThenElse(is_near, near, far());
}

template <class D, class V>
HWY_INLINE V sigmoid_far(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = exp_f32(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

template <class D, class V>
HWY_INLINE V sigmoid_f32(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return near_or_far(d, hn::Abs(x), 87.0f, hn::Div(one, hn::Add(one, exp_near(d, hn::Neg(x)))),
                     [&]() ATTACCA_INLINE_LAMBDA { return sigmoid_far(d, x); });
}

// x * sigmoid(v).
template <class D, class V>
HWY_INLINE V gated(D d, V x, V v) {
  const V near = hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp_near(d, hn::Neg(v))));
  return near_or_far(d, hn::Abs(v), 87.0f, near,
                     [&]() ATTACCA_INLINE_LAMBDA { return hn::Mul(x, sigmoid_far(d, v)); });
}

// max(x, 0) - |x| / 2 * 2 tail(|x|), where log2 of twice the normal tail is a polynomial up to 5.5:
// it begins at 0, so that all bits count near there, where half of x is left.
template <class D, class V, size_t kTail, size_t kExp2>
HWY_INLINE V gelu_near(D d, V x, V a, const float (&log2_tail)[kTail], const float (&exp2)[kExp2]) {
  const hn::RebindToSigned<D> di;
  const V q = polynomial(d, a, log2_tail);
  const V magic = hn::Set(d, 0x1.8p23f);
  const V shifted = hn::Add(q, magic);
  const V p = polynomial(d, hn::Sub(q, hn::Sub(shifted, magic)), exp2);
  const V twice =
      hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  const V positive = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);  // keeps the sign of -0
  return hn::NegMulAdd(hn::Mul(a, hn::Set(d, 0.5f)), twice, positive);
}

template <class D, class V>
HWY_INLINE V gelu_far(D d, V x, V a) {
  const V tail = normal_tail(d, a);
  return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail)));
}

template <class D, class V>
HWY_INLINE V gelu_f32(D d, V x) {
  constexpr float log2_tail[] = {0.0f,
                                 -1.1511051654815674f,
                                 -0.45921507477760315f,
                                 -0.05244878679513931f,
                                 0.006938245613127947f,
                                 2.9327093216124922e-05f,
                                 -0.0003090997342951596f,
                                 9.170475095743313e-05f,
                                 -1.549592343508266e-05f,
                                 1.636105366742413e-06f,
                                 -1.00536865943468e-07f,
                                 2.7521798173779644e-09f};
  constexpr float exp2[] = {1.0f,
                            0.6931471824645996f,
                            0.24022647738456726f,
                            0.05550359934568405f,
                            0.009618505835533142f,
                            0.0013390806270763278f,
                            0.00015326461289077997f};
  const V a = hn::Abs(x);
  return near_or_far(d, a, 5.5f, gelu_near(d, x, a, log2_tail, exp2),
                     [&]() ATTACCA_INLINE_LAMBDA { return gelu_far(d, x, a); });
}

// GELU, right to 17 bits.
template <class D, class V>
HWY_INLINE V gelu_coarse(D d, V x) {
  constexpr float log2_tail[] = {0.000004535f,    -1.15124684f,    -0.458480497f,
                                 -0.0539378586f,  0.00849376430f,  -0.000926030994f,
                                 6.09044444e-05f, -1.79346972e-06f};
  constexpr float exp2[] = {0.99999926f, 0.69312181f, 0.24024745f, 0.05591786f, 0.0095701f};
  const V a = hn::Abs(x);
  return near_or_far(d, a, 5.5f, gelu_near(d, x, a, log2_tail, exp2),
                     [&]() ATTACCA_INLINE_LAMBDA { return gelu_far(d, x, a); });
}

template <class D, class V>
HWY_INLINE V gelu_tanh_f32(D d, V x) {
  // x + 0.044715 x^3 times 2 sqrt(2 / pi).
  const V scale = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.07135481627f), hn::Set(d, 1.5957691216f));
  return gated(d, x, hn::Mul(x, scale));
}

template <class D, class V>
HWY_INLINE V softplus_f32(D d, V x) {
  return in_f64(
      d, [](auto dd, auto v) HWY_ATTR __attribute__((always_inline)) {
        const auto positive = hn::IfThenElse(hn::Gt(v, hn::Zero(dd)), v, hn::Zero(dd));
        return hn::Add(positive, log1p_f64(dd, exp_f64(dd, hn::Neg(hn::Abs(v)))));
      },
      x);
}

// tanh(softplus(x)) = n / (n + 2), n = e^x (e^x + 2).
template <class D, class V>
HWY_INLINE V mish_f32(D d, V x) {
  return in_f64(
      d, [](auto dd, auto v) HWY_ATTR __attribute__((always_inline)) {
        const auto two = hn::Set(dd, 2.0);
        // exp_f64 does not reach zero, which the result for -inf needs.
        const auto e = hn::IfThenElse(hn::Lt(v, hn::Set(dd, -200.0)), hn::Zero(dd),
                                      exp_f64(dd, at_most(dd, v, 20.0)));
        const auto n = hn::Mul(e, hn::Add(e, two));
        return hn::Mul(v, hn::Div(n, hn::Add(n, two)));
      },
      x);
}

// `alpha`: the factor of x in Silu's sigmoid.
template <Activation kActivation, class D, class V>
HWY_INLINE V activate(D d, V x, float alpha) {
  if constexpr (kActivation == Activation::Relu)
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
  else if constexpr (kActivation == Activation::Gelu)
    return gelu_f32(d, x);
  else if constexpr (kActivation == Activation::GeluCoarse)
    return gelu_coarse(d, x);
  else if constexpr (kActivation == Activation::GeluTanh)
    return gelu_tanh_f32(d, x);
  else if constexpr (kActivation == Activation::Silu)
    return gated(d, x, hn::Mul(hn::Set(d, alpha), x));
  else
    return x;
}

}  // namespace attacca::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
