// Approximating f32 kernels: transcendental functions and activations.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/kernels/math.cpp"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

#include "ir/graph/semantics.hpp"
#include "run/cpu/kernels/kernel.hpp"
#include "run/cpu/kernels/simd_activations-inl.hpp"
#include "run/cpu/kernels/simd_map-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {
namespace {

#define MATH1(NAME, EXPR)                                                 \
  void NAME(const KernelArgs& args) {                                     \
    const hn::ScalableTag<float> d;                                       \
    const auto p = hn::Set(d, static_cast<float>(args.params[0]));        \
    (void)p;                                                              \
    map1(d, d, args, [&](auto x) ATTACCA_INLINE_LAMBDA { return EXPR; }); \
  }
#define MATH2(NAME, EXPR)                                                         \
  void NAME(const KernelArgs& args) {                                             \
    const hn::ScalableTag<float> d;                                               \
    const auto p = hn::Set(d, static_cast<float>(args.params[0]));                \
    (void)p;                                                                      \
    map2(d, d, args, [&](auto x, auto y) ATTACCA_INLINE_LAMBDA { return EXPR; }); \
  }

template <class D, class V>
HWY_INLINE V negative_or(D d, V x, V negative, V other) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), negative, other);
}

// p * expm1(x) below zero, x above, the whole times scale: elu and selu, in f64.
template <class D, class V>
HWY_INLINE V elu(D d, V x, double alpha, double scale) {
  return in_f64(
      d,
      [alpha, scale](auto dd, auto v) ATTACCA_INLINE_LAMBDA {
        const auto low = hn::Mul(hn::Set(dd, alpha), expm1_f64(dd, v));
        return hn::Mul(hn::Set(dd, scale), hn::IfThenElse(hn::Lt(v, hn::Zero(dd)), low, v));
      },
      x);
}

template <class D, class V>
HWY_INLINE V hard_swish(D d, V x) {
  const V six = hn::Set(d, 6.0f);
  const V gate = at_most(d, at_least(d, hn::Add(x, hn::Set(d, 3.0f)), 0.0f), 6.0f);
  return hn::Mul(x, hn::Div(gate, six));
}

template <class D, class V>
HWY_INLINE V clamped_swiglu(D d, V x, V y, const double (&params)[3]) {
  const auto limit = static_cast<float>(params[1]);
  const V gate = at_most(d, x, limit);
  const V linear = at_most(d, at_least(d, y, -limit), limit);
  const V alpha = hn::Set(d, static_cast<float>(params[0]));
  const V swish = gated(d, gate, hn::Mul(alpha, gate));
  return hn::Mul(swish, hn::Add(linear, hn::Set(d, static_cast<float>(params[2]))));
}

MATH1(Rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)))
MATH1(Exp, exp_f32(d, x))
MATH1(Expm1, expm1_f32(d, x))
MATH1(Log, log_f32(d, x))
MATH1(Log1p, log1p_f32(d, x))
MATH1(Sin, sin_f32(d, x))
MATH1(Cos, cos_f32(d, x))
MATH1(Erf, erf_f32(d, x))
MATH1(Erfc, erfc_f32(d, x))
MATH1(Tanh, tanh_f32(d, x))
MATH1(Sigmoid, sigmoid_f32(d, x))
MATH1(Silu, gated(d, x, hn::Mul(p, x)))
MATH1(Gelu, gelu_f32(d, x))
MATH1(GeluTanh, gelu_tanh_f32(d, x))
MATH1(QuickGelu, gated(d, x, hn::Mul(hn::Set(d, 1.702f), x)))
MATH1(Softplus, softplus_f32(d, x))
MATH1(Mish, mish_f32(d, x))
MATH1(HardSwish, hard_swish(d, x))
MATH1(LeakyRelu, negative_or(d, x, hn::Mul(p, x), x))
MATH1(Elu, elu(d, x, args.params[0], 1.0))
MATH1(Selu, elu(d, x, ir::sem::kSeluAlpha, ir::sem::kSeluScale))
MATH2(SwiGlu, hn::Mul(gated(d, x, hn::Mul(p, x)), y))
MATH2(GeGlu, hn::Mul(gelu_f32(d, x), y))
MATH2(GeGluTanh, hn::Mul(gelu_tanh_f32(d, x), y))
MATH2(ClampedSwiGlu, clamped_swiglu(d, x, y, args.params))

}  // namespace

Kernel math_kernel(ir::Op op) {
  switch (op) {
#define CASE(NAME)   \
  case ir::Op::NAME: \
    return NAME;
    CASE(Rsqrt)
    CASE(Exp)
    CASE(Expm1)
    CASE(Log)
    CASE(Log1p)
    CASE(Sin)
    CASE(Cos)
    CASE(Erf)
    CASE(Erfc)
    CASE(Tanh)
    CASE(Sigmoid)
    CASE(Silu)
    CASE(Gelu)
    CASE(GeluTanh)
    CASE(QuickGelu)
    CASE(Softplus)
    CASE(Mish)
    CASE(HardSwish)
    CASE(LeakyRelu)
    CASE(Elu)
    CASE(Selu)
    CASE(SwiGlu)
    CASE(GeGlu)
    CASE(GeGluTanh)
    CASE(ClampedSwiGlu)
#undef CASE
    default:
      return nullptr;
  }
}

}  // namespace attacca::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::run {

HWY_EXPORT(math_kernel);

Kernel find_exact_float_kernel(ir::Op op);

Kernel float_kernel(ir::Op op, bool exact) {
  const Kernel approximation = exact ? nullptr : HWY_DYNAMIC_DISPATCH(math_kernel)(op);
  return approximation ? approximation : find_exact_float_kernel(op);
}

}  // namespace attacca::run
#endif
