// Kernels whose f32 or s32 result is exact: arithmetic, comparisons, logic, selection.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/kernels/arithmetic.cpp"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

#include "run/cpu/kernels/kernel.hpp"
#include "run/cpu/kernels/simd_map-inl.hpp"
#include "run/cpu/kernels/simd_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {
namespace {

// A kernel NAME over f32 (FLOAT) or s32 (INTEGER) lanes: EXPR of x, or x and y; p, q are the op's
// parameters, zero and one constants of the lane type.
#define FLOAT1(NAME, EXPR)                                                \
  void NAME(const KernelArgs& args) {                                     \
    const hn::ScalableTag<float> d;                                       \
    const auto zero = hn::Zero(d), one = hn::Set(d, 1.0f);                \
    const auto p = hn::Set(d, static_cast<float>(args.params[0]));        \
    const auto q = hn::Set(d, static_cast<float>(args.params[1]));        \
    (void)zero, (void)one, (void)p, (void)q;                              \
    map1(d, d, args, [&](auto x) ATTACCA_INLINE_LAMBDA { return EXPR; }); \
  }
#define FLOAT2(NAME, EXPR)                                                        \
  void NAME(const KernelArgs& args) {                                             \
    const hn::ScalableTag<float> d;                                               \
    const auto zero = hn::Zero(d);                                                \
    (void)zero;                                                                   \
    map2(d, d, args, [&](auto x, auto y) ATTACCA_INLINE_LAMBDA { return EXPR; }); \
  }
// Float operands, 0 or 1 in s32 lanes out.
#define COMPARE(NAME, FUNCTION)                                                                \
  void NAME(const KernelArgs& args) {                                                          \
    const hn::ScalableTag<float> d;                                                            \
    const hn::ScalableTag<int32_t> di;                                                         \
    map2(d, di, args, [&](auto x, auto y) ATTACCA_INLINE_LAMBDA {                              \
      return hn::And(hn::BitCast(di, hn::VecFromMask(d, hn::FUNCTION(x, y))), hn::Set(di, 1)); \
    });                                                                                        \
  }
#define INTEGER1(NAME, EXPR)                                              \
  void NAME(const KernelArgs& args) {                                     \
    const hn::ScalableTag<int32_t> d;                                     \
    const auto zero = hn::Zero(d), one = hn::Set(d, 1);                   \
    (void)zero, (void)one;                                                \
    map1(d, d, args, [&](auto x) ATTACCA_INLINE_LAMBDA { return EXPR; }); \
  }
#define INTEGER2(NAME, EXPR)                                                      \
  void NAME(const KernelArgs& args) {                                             \
    const hn::ScalableTag<int32_t> d;                                             \
    const auto zero = hn::Zero(d), one = hn::Set(d, 1);                           \
    (void)zero, (void)one;                                                        \
    map2(d, d, args, [&](auto x, auto y) ATTACCA_INLINE_LAMBDA { return EXPR; }); \
  }
// f32 lanes computed in f64 and rounded once, as the reference does; p, q stay f64.
#define VIA_F64(NAME, EXPR)                                       \
  void NAME(const KernelArgs& args) {                             \
    const hn::ScalableTag<float> df;                              \
    map1(df, df, args, [&](auto narrow) ATTACCA_INLINE_LAMBDA {   \
      return in_f64(                                              \
          df,                                                     \
          [&](auto d, auto x) ATTACCA_INLINE_LAMBDA {             \
            const auto zero = hn::Zero(d), one = hn::Set(d, 1.0); \
            const auto p = hn::Set(d, args.params[0]);            \
            const auto q = hn::Set(d, args.params[1]);            \
            (void)zero, (void)one, (void)p, (void)q;              \
            return EXPR;                                          \
          },                                                      \
          narrow);                                                \
    });                                                           \
  }

template <class V>
HWY_INLINE V relu(V x, V zero) {
  return hn::IfThenElse(hn::Lt(x, zero), zero, x);
}
// sem::clamp: NaN stays, and the upper bound wins.
template <class V>
HWY_INLINE V clamp(V x, V low, V high) {
  const V raised = hn::IfThenElse(hn::Lt(x, low), low, x);
  return hn::IfThenElse(hn::Gt(raised, high), high, raised);
}
template <class D, class V>
HWY_INLINE V sign(D d, V x) {
  const V one = hn::Set(d, 1.0f), zero = hn::Zero(d);
  const V magnitude = hn::IfThenElse(hn::Eq(x, zero), zero, hn::CopySign(one, x));
  return hn::IfThenElse(hn::Eq(x, x), magnitude, x);
}
template <class V>
HWY_INLINE V maximum(V x, V y) {
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Gt(x, y)), x, y);
}
template <class V>
HWY_INLINE V minimum(V x, V y) {
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::Lt(x, y)), x, y);
}
template <class D, class M>
HWY_INLINE hn::VFromD<D> truth(D d, M mask) {
  return hn::And(hn::VecFromMask(d, mask), hn::Set(d, 1));
}

FLOAT1(FloatNeg, hn::Neg(x))
FLOAT1(FloatAbs, hn::Abs(x))
FLOAT1(FloatSign, sign(d, x))
FLOAT1(FloatReciprocal, hn::Div(one, x))
FLOAT1(FloatSquare, hn::Mul(x, x))
FLOAT1(FloatSqrt, hn::Sqrt(x))
FLOAT1(FloatFloor, hn::Floor(x))
FLOAT1(FloatCeil, hn::Ceil(x))
FLOAT1(FloatRound, hn::Round(x))
FLOAT1(FloatRelu, relu(x, zero))
FLOAT1(FloatRelu6, clamp(x, zero, hn::Set(d, 6.0f)))
FLOAT1(FloatClamp, clamp(x, p, q))
FLOAT2(FloatAdd, hn::Add(x, y))
FLOAT2(FloatSub, hn::Sub(x, y))
FLOAT2(FloatMul, hn::Mul(x, y))
FLOAT2(FloatDiv, hn::Div(x, y))
FLOAT2(FloatMax, maximum(x, y))
FLOAT2(FloatMin, minimum(x, y))
FLOAT2(FloatReGlu, hn::Mul(relu(x, zero), y))
COMPARE(FloatLt, Lt)
COMPARE(FloatLe, Le)
COMPARE(FloatGt, Gt)
COMPARE(FloatGe, Ge)
COMPARE(FloatEq, Eq)
// NaN differs from itself, but hn::Ne gives false for it on x86.
void FloatNe(const KernelArgs& args) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  map2(d, di, args, [&](auto x, auto y) ATTACCA_INLINE_LAMBDA {
    return hn::AndNot(hn::BitCast(di, hn::VecFromMask(d, hn::Eq(x, y))), hn::Set(di, 1));
  });
}
VIA_F64(ExactRsqrt, hn::Div(one, hn::Sqrt(x)))
VIA_F64(ExactLeakyRelu, hn::IfThenElse(hn::Lt(x, zero), hn::Mul(p, x), x))
VIA_F64(ExactHardSwish,
        hn::Mul(x, hn::Div(clamp(hn::Add(x, hn::Set(d, 3.0)), zero, hn::Set(d, 6.0)),
                           hn::Set(d, 6.0))))
VIA_F64(ExactHardSigmoid, clamp(hn::Add(hn::Mul(p, x), q), zero, one))

INTEGER1(IntNeg, hn::Sub(zero, x))
INTEGER1(IntAbs, hn::IfThenElse(hn::Lt(x, zero), hn::Sub(zero, x), x))
INTEGER1(IntSign, hn::Sub(truth(d, hn::Gt(x, zero)), truth(d, hn::Lt(x, zero))))
INTEGER1(IntSquare, hn::Mul(x, x))
INTEGER1(IntRelu, hn::IfThenElse(hn::Lt(x, zero), zero, x))
INTEGER1(IntNot, truth(d, hn::Eq(x, zero)))
INTEGER2(IntAdd, hn::Add(x, y))
INTEGER2(IntSub, hn::Sub(x, y))
INTEGER2(IntMul, hn::Mul(x, y))
INTEGER2(IntMax, hn::IfThenElse(hn::Gt(x, y), x, y))
INTEGER2(IntMin, hn::IfThenElse(hn::Lt(x, y), x, y))
INTEGER2(IntLt, truth(d, hn::Lt(x, y)))
INTEGER2(IntGt, truth(d, hn::Gt(x, y)))
INTEGER2(IntEq, truth(d, hn::Eq(x, y)))
INTEGER2(IntNe, hn::Xor(truth(d, hn::Eq(x, y)), one))
INTEGER2(IntLe, hn::Xor(truth(d, hn::Gt(x, y)), one))
INTEGER2(IntGe, hn::Xor(truth(d, hn::Lt(x, y)), one))
INTEGER2(IntAnd, hn::And(x, y))
INTEGER2(IntOr, hn::Or(x, y))
INTEGER2(IntXor, hn::Xor(x, y))

// Bits of y where x, else of z; any operand may be broadcast.
void Select(const KernelArgs& args) {
  const hn::ScalableTag<int32_t> d;
  auto* out = static_cast<int32_t*>(args.out);
  const auto vector = [&](int k, size_t i, size_t rest) ATTACCA_INLINE_LAMBDA {
    const auto* data = static_cast<const int32_t*>(args.in[k]);
    if (args.splat[k]) return hn::Set(d, *data);
    return rest ? load_tail(d, data + i, rest) : hn::LoadU(d, data + i);
  };
  const auto chosen = [&](size_t i, size_t rest) ATTACCA_INLINE_LAMBDA {
    const auto no = hn::Eq(vector(0, i, rest), hn::Zero(d));
    return hn::IfThenElse(no, vector(2, i, rest), vector(1, i, rest));
  };
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= args.count; i += lanes) hn::StoreU(chosen(i, 0), d, out + i);
  if (const size_t rest = args.count - i) store_tail(chosen(i, rest), d, out + i, rest);
}

}  // namespace

Kernel exact_float_kernel(ir::Op op) {
  switch (op) {
#define CASE(NAME)   \
  case ir::Op::NAME: \
    return Float##NAME;
    CASE(Neg)
    CASE(Abs)
    CASE(Sign)
    CASE(Reciprocal)
    CASE(Square)
    CASE(Sqrt)
    CASE(Floor)
    CASE(Ceil)
    CASE(Round)
    CASE(Relu)
    CASE(Relu6)
    CASE(Clamp)
    CASE(Add)
    CASE(Sub)
    CASE(Mul)
    CASE(Div)
    CASE(Max)
    CASE(Min)
    CASE(ReGlu)
    CASE(Lt)
    CASE(Le)
    CASE(Gt)
    CASE(Ge)
    CASE(Eq)
    CASE(Ne)
#undef CASE
    case ir::Op::Rsqrt:
      return ExactRsqrt;
    case ir::Op::LeakyRelu:
      return ExactLeakyRelu;
    case ir::Op::HardSwish:
      return ExactHardSwish;
    case ir::Op::HardSigmoid:
      return ExactHardSigmoid;
    default:
      return nullptr;
  }
}

Kernel integer_kernel_of(ir::Op op) {
  switch (op) {
#define CASE(NAME)   \
  case ir::Op::NAME: \
    return Int##NAME;
    CASE(Neg)
    CASE(Abs)
    CASE(Sign)
    CASE(Square)
    CASE(Relu)
    CASE(Not)
    CASE(Add)
    CASE(Sub)
    CASE(Mul)
    CASE(Max)
    CASE(Min)
    CASE(Lt)
    CASE(Le)
    CASE(Gt)
    CASE(Ge)
    CASE(Eq)
    CASE(Ne)
    CASE(And)
    CASE(Or)
    CASE(Xor)
#undef CASE
    default:
      return nullptr;
  }
}

Kernel select_kernel_of() {
  return Select;
}

}  // namespace attacca::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::run {

HWY_EXPORT(exact_float_kernel);
HWY_EXPORT(integer_kernel_of);
HWY_EXPORT(select_kernel_of);

Kernel find_exact_float_kernel(ir::Op op) {
  return HWY_DYNAMIC_DISPATCH(exact_float_kernel)(op);
}
Kernel integer_kernel(ir::Op op) {
  return HWY_DYNAMIC_DISPATCH(integer_kernel_of)(op);
}
Kernel select_kernel() {
  return HWY_DYNAMIC_DISPATCH(select_kernel_of)();
}

}  // namespace attacca::run
#endif
