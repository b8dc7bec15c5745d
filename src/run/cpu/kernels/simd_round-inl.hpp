// Rounding of f32 vectors to narrower float formats, to nearest even as ir::round_to, and their
// bits.
#if defined(ATTACCA_RUN_SIMD_ROUND_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTACCA_RUN_SIMD_ROUND_INL_
#undef ATTACCA_RUN_SIMD_ROUND_INL_
#else
#define ATTACCA_RUN_SIMD_ROUND_INL_
#endif

#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A float format narrower than f32: `fraction` stored bits, exponent bias, largest finite value.
template <int kFraction, int kBias, uint32_t kLargestBits, bool kInfinity>
struct Format {
  static constexpr int fraction = kFraction, bias = kBias;
  static constexpr uint32_t largest_bits = kLargestBits;  // as f32 bits
  static constexpr bool infinity = kInfinity;
  // As f32: bits of the smallest normal, and 1.5 * 2^23 ulps of a subnormal: adding it rounds.
  static constexpr uint32_t smallest_bits = static_cast<uint32_t>(127 + 1 - kBias) << 23;
  static constexpr uint32_t magic_bits = static_cast<uint32_t>(127 + 1 - kBias - kFraction + 23)
                                         << 23;
};
using F16Format = Format<10, 15, 0x477FE000u, true>;
using F8E4M3Format = Format<3, 7, 0x43E00000u, false>;
using F8E5M2Format = Format<2, 15, 0x47600000u, true>;

// |x| rounded to nearest even in the format, as f32 bits; sign and NaN apart.
template <class F, bool kSaturate, class D, class DU>
HWY_INLINE hn::VFromD<DU> round_magnitude(D d, DU du, hn::VFromD<DU> magnitude) {
  constexpr int kDropped = 23 - F::fraction;
  const auto odd = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(du, 1u));
  const auto bumped = hn::Add(hn::Add(magnitude, hn::Set(du, (1u << (kDropped - 1)) - 1)), odd);
  const auto normal = hn::And(bumped, hn::Set(du, ~((1u << kDropped) - 1)));
  const auto magic = hn::BitCast(d, hn::Set(du, F::magic_bits));
  const auto small = hn::Sub(hn::Add(hn::BitCast(d, magnitude), magic), magic);
  const auto is_small =
      hn::Lt(hn::BitCast(d, magnitude), hn::BitCast(d, hn::Set(du, F::smallest_bits)));
  auto rounded = hn::IfThenElse(hn::RebindMask(du, is_small), hn::BitCast(du, small), normal);
  const auto largest = hn::BitCast(d, hn::Set(du, F::largest_bits));
  const auto over = hn::RebindMask(du, hn::Gt(hn::BitCast(d, rounded), largest));
  const uint32_t beyond = kSaturate ? F::largest_bits : F::infinity ? 0x7F800000u : 0x7FC00000u;
  return hn::IfThenElse(over, hn::Set(du, beyond), rounded);
}

template <class F, bool kSaturate>
struct Rounder {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, x);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
    const auto sign = hn::Xor(bits, magnitude);
    const auto rounded = hn::Or(sign, round_magnitude<F, kSaturate>(d, du, magnitude));
    return hn::IfThenElse(hn::Eq(x, x), hn::BitCast(d, rounded), x);
  }
};

template <bool kSaturate>
struct BFloatRounder {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto bumped = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFu)), odd);
    V rounded = hn::BitCast(d, hn::And(bumped, hn::Set(du, 0xFFFF0000u)));
    if constexpr (kSaturate) {
      const V largest = hn::BitCast(d, hn::Set(du, 0x7F7F0000u));
      rounded =
          hn::IfThenElse(hn::Gt(hn::Abs(rounded), largest), hn::CopySign(largest, x), rounded);
    }
    const auto nan = hn::Or(bits, hn::Set(du, 0x00400000u));
    return hn::IfThenElse(hn::Eq(x, x), rounded,
                          hn::BitCast(d, hn::And(nan, hn::Set(du, 0xFFFF0000u))));
  }
};

// f32 itself changes only where an infinity saturates.
struct Clamper {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V largest = hn::Set(d, std::numeric_limits<float>::max());
    return hn::IfThenElse(hn::Gt(hn::Abs(x), largest), hn::CopySign(largest, x), x);
  }
};

// f32 lanes already rounded to the format -> its bits in the low end of each lane.
template <class F, class D, class V>
HWY_INLINE hn::VFromD<hn::RebindToUnsigned<D>> encoded(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  constexpr int kDropped = 23 - F::fraction;
  const auto bits = hn::BitCast(du, Rounder<F, false>()(d, x));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFu));
  const auto normal = hn::Sub(hn::ShiftRight<kDropped>(magnitude),
                              hn::Set(du, static_cast<uint32_t>(127 - F::bias) << F::fraction));
  // The subnormal's integer appears in the low fraction bits of magic + x.
  const auto magic = hn::BitCast(d, hn::Set(du, F::magic_bits));
  const auto small = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), magic)),
                             hn::Set(du, F::magic_bits));
  const auto is_small = hn::RebindMask(
      du, hn::Lt(hn::BitCast(d, magnitude), hn::BitCast(d, hn::Set(du, F::smallest_bits))));
  auto code = hn::IfThenElse(is_small, small, normal);
  constexpr int kWidth = F::infinity && F::fraction == 10 ? 16 : 8;
  constexpr uint32_t kTop = (1u << (kWidth - 1)) - 1;
  constexpr uint32_t kExponents = kTop & ~((1u << F::fraction) - 1);
  constexpr uint32_t kNaN = F::infinity ? kExponents | (1u << (F::fraction - 1)) : kTop;
  if constexpr (F::infinity) {
    const auto is_inf = hn::Eq(magnitude, hn::Set(du, 0x7F800000u));
    code = hn::IfThenElse(is_inf, hn::Set(du, kExponents), code);
  }
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(hn::BitCast(d, magnitude)));
  code = hn::IfThenElse(is_nan, hn::Set(du, kNaN), code);
  return hn::Or(code, hn::And(hn::ShiftRight<32 - kWidth>(bits), hn::Set(du, kTop + 1)));
}

}  // namespace attacca::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
