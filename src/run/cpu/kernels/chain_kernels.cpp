// The loops of chain.hpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/kernels/chain_kernels.cpp"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

#include "run/cpu/kernels/chain.hpp"
#include "run/cpu/kernels/simd_activations-inl.hpp"
#include "run/cpu/kernels/simd_map-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
ChainKernel find_chain_kernel(bool, Activation, Join, bool, bool) {
  return nullptr;
}
#else
namespace {

template <bool kBF16, class D>
HWY_INLINE hn::VFromD<D> load(D d, const void* from, int64_t at) {
  if constexpr (!kBF16) {
    return hn::LoadU(d, static_cast<const float*>(from) + at);
  } else {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> narrow;
    const auto bits = hn::LoadU(narrow, static_cast<const uint16_t*>(from) + at);
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  }
}

// How results are stored: as they are, or rounded to bf16 by integer operations or by the machine's
// own instruction.
enum class Out : uint8_t { F32, BF16, NativeBF16 };

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
constexpr bool kKnowsNativeBF16 = true;
bool has_native_bf16() {
  return __builtin_cpu_supports("avx512bf16");
}
// The instruction is not in the target's instruction set, so it is written as assembly. It flushes
// subnormals; returns false for a vector that holds any.
HWY_INLINE bool store_native(hn::Vec512<float> x, uint16_t* to) {
  constexpr int kSubnormal = 0x20;
  if (HWY_UNLIKELY(_mm512_fpclass_ps_mask(x.raw, kSubnormal) != 0)) return false;
  __m256i codes;
  asm("vcvtneps2bf16 %1, %0" : "=v"(codes) : "v"(x.raw));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), codes);
  return true;
}
#else
constexpr bool kKnowsNativeBF16 = false;
bool has_native_bf16() {
  return false;
}
template <class V>
HWY_INLINE bool store_native(V, uint16_t*) {
  return false;
}
#endif

// Rounds to nearest even; a NaN keeps its upper bits and becomes quiet.
template <Out kOut, class D>
HWY_INLINE void store(D d, hn::VFromD<D> x, void* to, int64_t at) {
  if constexpr (kOut == Out::F32) {
    hn::StoreU(x, d, static_cast<float*>(to) + at);
  } else {
    auto* codes = static_cast<uint16_t*>(to) + at;
    if (kOut == Out::NativeBF16 && store_native(x, codes)) return;
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> narrow;
    const auto bits = hn::BitCast(du, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFu)), odd);
    const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000u));
    const auto code = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(x)), quiet, rounded);
    hn::StoreU(hn::TruncateTo(narrow, hn::ShiftRight<16>(code)), narrow, codes);
  }
}

// The short rows of a tile are a page or more apart, too far for hardware prefetchers.
constexpr int64_t kRowsAhead = 4, kShortRow = 512;
template <bool kWrite>
HWY_INLINE void prefetch_row(const std::byte* row, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at, kWrite, 3);
}

template <bool kBias, Activation kActivation, Join kJoin, bool kOtherBF16, Out kStored>
void run_chain(const ChainArgs& args) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr size_t kOther = kOtherBF16 ? 2 : 4, kOut = kStored == Out::F32 ? 4 : 2;
  const auto step = [&](const float* x, const float* bias, const void* other, void* out, int64_t at)
                        ATTACCA_INLINE_LAMBDA {
                          auto value = hn::LoadU(d, x + at);
                          if constexpr (kBias) value = hn::Add(value, hn::LoadU(d, bias + at));
                          value = activate<kActivation>(d, value, args.alpha);
                          if constexpr (kJoin == Join::Mul)
                            value = hn::Mul(value, load<kOtherBF16>(d, other, at));
                          if constexpr (kJoin == Join::Add)
                            value = hn::Add(value, load<kOtherBF16>(d, other, at));
                          store<kStored>(d, value, out, at);
                        };
  const auto rest = static_cast<size_t>(args.columns % lanes);
  const int64_t whole = args.columns - static_cast<int64_t>(rest);
  for (int64_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    const auto* other =
        static_cast<const std::byte*>(args.other) + row * args.other_stride * kOther;
    auto* out = static_cast<std::byte*>(args.out) + row * args.out_stride * kOut;
    if (args.columns <= kShortRow && row + kRowsAhead < args.rows) {
      if constexpr (kJoin != Join::None)
        prefetch_row<false>(other + kRowsAhead * args.other_stride * kOther, args.columns * kOther);
      prefetch_row<true>(out + kRowsAhead * args.out_stride * kOut, args.columns * kOut);
    }
    // Whole vectors, then the tail in copies that are padded with zeros, because any lane may
    // decide which branch an activation takes. There is one call of step, so that it is inlined.
    HWY_ALIGN float last_x[kMaxLanes] = {}, last_bias[kMaxLanes] = {};
    HWY_ALIGN std::byte last_other[kMaxLanes * 4] = {}, last_out[kMaxLanes * 4];
    const float* bias = args.bias;
    std::byte* to = out;
    for (int64_t end = whole;; end = lanes) {
      for (int64_t at = 0; at < end; at += lanes) step(x, bias, other, to, at);
      if (to == last_out || rest == 0) break;
      std::memcpy(last_x, x + whole, rest * sizeof(float));
      if constexpr (kBias) std::memcpy(last_bias, bias + whole, rest * sizeof(float));
      if constexpr (kJoin != Join::None)
        std::memcpy(last_other, other + whole * kOther, rest * kOther);
      x = last_x, bias = last_bias, other = last_other, to = last_out;
    }
    if (rest) std::memcpy(out + whole * kOut, last_out, rest * kOut);
  }
}

// Turns run-time choices into template arguments, one at a time.
template <bool kBias, Activation kActivation, Join kJoin, bool kOtherBF16>
ChainKernel by_out(bool out_is_bf16) {
  if (!out_is_bf16) return run_chain<kBias, kActivation, kJoin, kOtherBF16, Out::F32>;
  if constexpr (kKnowsNativeBF16)
    if (has_native_bf16()) return run_chain<kBias, kActivation, kJoin, kOtherBF16, Out::NativeBF16>;
  return run_chain<kBias, kActivation, kJoin, kOtherBF16, Out::BF16>;
}
template <bool kBias, Activation kActivation, Join kJoin>
ChainKernel by_types(bool other_is_bf16, bool out_is_bf16) {
  if (kJoin != Join::None && other_is_bf16)
    return by_out<kBias, kActivation, kJoin, true>(out_is_bf16);
  return by_out<kBias, kActivation, kJoin, false>(out_is_bf16);
}
template <bool kBias, Activation kActivation>
ChainKernel by_join(Join join, bool other_is_bf16, bool out_is_bf16) {
  switch (join) {
    case Join::None:
      return by_types<kBias, kActivation, Join::None>(other_is_bf16, out_is_bf16);
    case Join::Mul:
      return by_types<kBias, kActivation, Join::Mul>(other_is_bf16, out_is_bf16);
    case Join::Add:
      return by_types<kBias, kActivation, Join::Add>(other_is_bf16, out_is_bf16);
  }
  return nullptr;
}
template <bool kBias>
ChainKernel by_activation(Activation activation, Join join, bool other_is_bf16, bool out_is_bf16) {
  switch (activation) {
    case Activation::None:
      return by_join<kBias, Activation::None>(join, other_is_bf16, out_is_bf16);
    case Activation::Relu:
      return by_join<kBias, Activation::Relu>(join, other_is_bf16, out_is_bf16);
    case Activation::Gelu:
      return by_join<kBias, Activation::Gelu>(join, other_is_bf16, out_is_bf16);
    case Activation::GeluCoarse:
      return by_join<kBias, Activation::GeluCoarse>(join, other_is_bf16, out_is_bf16);
    case Activation::GeluTanh:
      return by_join<kBias, Activation::GeluTanh>(join, other_is_bf16, out_is_bf16);
    case Activation::Silu:
      return by_join<kBias, Activation::Silu>(join, other_is_bf16, out_is_bf16);
  }
  return nullptr;
}

}  // namespace

ChainKernel find_chain_kernel(bool bias, Activation activation, Join join, bool other_is_bf16,
                              bool out_is_bf16) {
  return bias ? by_activation<true>(activation, join, other_is_bf16, out_is_bf16)
              : by_activation<false>(activation, join, other_is_bf16, out_is_bf16);
}
#endif

}  // namespace attacca::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::run {

HWY_EXPORT(find_chain_kernel);

ChainKernel chain_kernel(bool bias, Activation activation, Join join, bool other_is_bf16,
                         bool out_is_bf16) {
  return HWY_DYNAMIC_DISPATCH(find_chain_kernel)(bias, activation, join, other_is_bf16,
                                                 out_is_bf16);
}

}  // namespace attacca::run
#endif
