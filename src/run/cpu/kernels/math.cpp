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

template <class D, class V>
HWY_INLINE V negative_or(D d, V x, V negative, V other) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), negative, other);
}

// scale * (x < 0 ? p * expm1(x) : x), in f64: elu and selu.
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

// ONE: ops of one operand, x; TWO: of two, x and y. p: the first parameter.
#define MATH_KERNELS(ONE, TWO)                                   \
  ONE(Rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)))             \
  ONE(Exp, exp_f32(d, x))                                        \
  ONE(Expm1, expm1_f32(d, x))                                    \
  ONE(Log, log_f32(d, x))                                        \
  ONE(Log1p, log1p_f32(d, x))                                    \
  ONE(Sin, sin_f32(d, x))                                        \
  ONE(Cos, cos_f32(d, x))                                        \
  ONE(Erf, erf_f32(d, x))                                        \
  ONE(Erfc, erfc_f32(d, x))                                      \
  ONE(Tanh, tanh_f32(d, x))                                      \
  ONE(Sigmoid, sigmoid_f32(d, x))                                \
  ONE(Silu, gated(d, x, hn::Mul(p, x)))                          \
  ONE(Gelu, gelu_f32(d, x))                                      \
  ONE(GeluTanh, gelu_tanh_f32(d, x))                             \
  ONE(QuickGelu, gated(d, x, hn::Mul(hn::Set(d, 1.702f), x)))    \
  ONE(Softplus, softplus_f32(d, x))                              \
  ONE(Mish, mish_f32(d, x))                                      \
  ONE(HardSwish, hard_swish(d, x))                               \
  ONE(LeakyRelu, negative_or(d, x, hn::Mul(p, x), x))            \
  ONE(Elu, elu(d, x, args.params[0], 1.0))                       \
  ONE(Selu, elu(d, x, ir::sem::kSeluAlpha, ir::sem::kSeluScale)) \
  TWO(SwiGlu, hn::Mul(gated(d, x, hn::Mul(p, x)), y))            \
  TWO(GeGlu, hn::Mul(gelu_f32(d, x), y))                         \
  TWO(GeGluTanh, hn::Mul(gelu_tanh_f32(d, x), y))                \
  TWO(ClampedSwiGlu, clamped_swiglu(d, x, y, args.params))

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
MATH_KERNELS(MATH1, MATH2)

}  // namespace

Kernel math_kernel(ir::Op op) {
  switch (op) {
#define CASE(NAME, EXPR) \
  case ir::Op::NAME:     \
    return NAME;
    MATH_KERNELS(CASE, CASE)
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
