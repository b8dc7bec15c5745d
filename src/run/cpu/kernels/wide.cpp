// Loops over s64 lanes, one for each integer op of the table, and their conversions.
#include <cmath>

#include "ir/graph/semantics.hpp"
#include "run/cpu/kernels/kernel.hpp"

namespace attacca::run {
namespace {

using ir::Op;
using ir::TypeRule;
namespace sem = ir::sem;

// out[i] = the row's reference of s64 operands; a broadcast one is read at 0.
#define ELEMENTWISE(NAME, TEXT, ARITY, RULE, TRAITS, COST, PARAMETERS, REFERENCE, ...)       \
  void NAME(const KernelArgs& args) {                                                        \
    if constexpr (TypeRule::RULE != TypeRule::Float) {                                       \
      using T = int64_t;                                                                     \
      using Out = std::conditional_t<TypeRule::RULE == TypeRule::Compare, int32_t, int64_t>; \
      const double p = args.params[0], q = args.params[1], r = args.params[2];               \
      (void)p, (void)q, (void)r;                                                             \
      const T* in[3];                                                                        \
      size_t step[3] = {};                                                                   \
      for (int k = 0; k < 3; ++k) {                                                          \
        in[k] = static_cast<const T*>(args.in[k < ARITY ? k : 0]);                           \
        step[k] = args.splat[k < ARITY ? k : 0] ? 0 : 1;                                     \
      }                                                                                      \
      auto* out = static_cast<Out*>(args.out);                                               \
      for (size_t i = 0; i < args.count; ++i) {                                              \
        const T x = in[0][i * step[0]], y = in[1][i * step[1]], z = in[2][i * step[2]];      \
        (void)y, (void)z;                                                                    \
        out[i] = static_cast<Out>(REFERENCE);                                                \
      }                                                                                      \
    }                                                                                        \
  }
#include "ir/graph/ops.def"

template <class From, class To, class F>
void convert(const KernelArgs& args, F f) {
  const auto* in = static_cast<const From*>(args.in[0]);
  auto* out = static_cast<To*>(args.out);
  for (size_t i = 0; i < args.count; ++i) out[i] = f(in[i]);
}

void widen(const KernelArgs& args) {
  convert<int32_t, int64_t>(args, [](int32_t x) { return int64_t{x}; });
}
void narrow(const KernelArgs& args) {
  convert<int64_t, int32_t>(args, [](int64_t x) { return static_cast<int32_t>(x); });
}
void is_set(const KernelArgs& args) {
  convert<int64_t, int32_t>(args, [](int64_t x) { return x != 0; });
}
// Through f64, as the reference.
void to_float(const KernelArgs& args) {
  convert<int64_t, float>(args,
                          [](int64_t x) { return static_cast<float>(static_cast<double>(x)); });
}

}  // namespace

Kernel wide_kernel(Op op) {
  switch (op) {
#define ELEMENTWISE(NAME, TEXT, ARITY, RULE, ...) \
  case Op::NAME:                                  \
    return TypeRule::RULE == TypeRule::Float || TypeRule::RULE == TypeRule::Logic ? nullptr : NAME;
#include "ir/graph/ops.def"
    default:
      return nullptr;
  }
}

Kernel widen_kernel() {
  return widen;
}
Kernel narrow_kernel(ir::DType dtype) {
  return dtype == ir::DType::Bool ? is_set : narrow;
}
Kernel wide_to_float_kernel() {
  return to_float;
}

}  // namespace attacca::run
