// Kernels that move numbers between memory and lanes, and round lanes to a dtype.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "run/cpu/kernels/convert.cpp"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

#include <cmath>
#include <limits>

#include "run/cpu/kernels/kernel.hpp"
#include "run/cpu/kernels/simd_map-inl.hpp"
#include "run/cpu/kernels/simd_round-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace attacca::run::HWY_NAMESPACE {
namespace {

using ir::DType;
using ir::Overflow;

// The machine's own conversions of f16.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define ATTACCA_NATIVE_F16 1
constexpr hn::ScalableTag<float> kSingle;
constexpr hn::Rebind<hwy::float16_t, hn::ScalableTag<float>> kHalf;

void round_f16(const KernelArgs& args) {
  map1(kSingle, kSingle, args,
       [](auto x) ATTACCA_INLINE_LAMBDA { return hn::PromoteTo(kSingle, hn::DemoteTo(kHalf, x)); });
}
void store_f16(const KernelArgs& args) {
  map1(kSingle, kHalf, args, [](auto x) ATTACCA_INLINE_LAMBDA { return hn::DemoteTo(kHalf, x); });
}
void load_f16(const KernelArgs& args) {
  map1(kHalf, kSingle, args,
       [](auto x) ATTACCA_INLINE_LAMBDA { return hn::PromoteTo(kSingle, x); });
}
#endif

template <class R>
void round_lanes(const KernelArgs& args) {
  const hn::ScalableTag<float> d;
  map1(d, d, args, [d](auto x) ATTACCA_INLINE_LAMBDA { return R()(d, x); });
}

template <class F, class T>
void store_small(const KernelArgs& args) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<T, decltype(d)> narrow;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto* in = static_cast<const float*>(args.in[0]);
  auto* out = static_cast<T*>(args.out);
  const size_t lanes = hn::Lanes(d);
  const auto code = [&](auto x) ATTACCA_INLINE_LAMBDA {
    return hn::DemoteTo(narrow, hn::BitCast(hn::RebindToSigned<decltype(du)>(), encoded<F>(d, x)));
  };
  size_t i = 0;
  for (; i + lanes <= args.count; i += lanes)
    hn::StoreU(code(hn::LoadU(d, in + i)), narrow, out + i);
  if (const size_t rest = args.count - i) {
    HWY_ALIGN T last[kMaxLanes];
    hn::StoreU(code(load_tail(d, in + i, rest)), narrow, last);
    std::memcpy(out + i, last, rest * sizeof(T));
  }
}

void store_bf16(const KernelArgs& args) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> narrow;
  const auto* in = static_cast<const float*>(args.in[0]);
  auto* out = static_cast<uint16_t*>(args.out);
  const size_t lanes = hn::Lanes(d);
  const auto code = [&](auto x) ATTACCA_INLINE_LAMBDA {
    const auto bits = hn::BitCast(du, BFloatRounder<false>()(d, x));
    return hn::DemoteTo(narrow, hn::BitCast(di, hn::ShiftRight<16>(bits)));
  };
  size_t i = 0;
  for (; i + lanes <= args.count; i += lanes)
    hn::StoreU(code(hn::LoadU(d, in + i)), narrow, out + i);
  if (const size_t rest = args.count - i) {
    HWY_ALIGN uint16_t last[kMaxLanes];
    hn::StoreU(code(load_tail(d, in + i, rest)), narrow, last);
    std::memcpy(out + i, last, rest * sizeof(uint16_t));
  }
}

// Sixteen-bit elements widened to u32 lanes, then f.
template <class F>
HWY_INLINE void load_halves(const KernelArgs& args, F f) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> narrow;
  const auto* in = static_cast<const uint16_t*>(args.in[0]);
  auto* out = static_cast<float*>(args.out);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= args.count; i += lanes)
    hn::StoreU(f(d, du, hn::PromoteTo(du, hn::LoadU(narrow, in + i))), d, out + i);
  if (const size_t rest = args.count - i) {
    HWY_ALIGN uint16_t last[kMaxLanes] = {};
    std::memcpy(last, in + i, rest * sizeof(uint16_t));
    store_tail(f(d, du, hn::PromoteTo(du, hn::LoadU(narrow, last))), d, out + i, rest);
  }
}

void load_bf16(const KernelArgs& args) {
  load_halves(args, [](auto d, auto, auto bits)
                        ATTACCA_INLINE_LAMBDA { return hn::BitCast(d, hn::ShiftLeft<16>(bits)); });
}

#ifndef ATTACCA_NATIVE_F16
void load_f16(const KernelArgs& args) {
  load_halves(args, [](auto d, auto du, auto bits) ATTACCA_INLINE_LAMBDA {
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7FFFu)));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
    // The exponents of f16 read as f32's; 2^112 moves them, subnormals included.
    const auto scaled = hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f));
    const auto special = hn::Ge(hn::BitCast(d, magnitude), hn::Set(d, 0x1p-96f));
    const auto infinite = hn::BitCast(d, hn::Or(magnitude, hn::Set(du, 0x7F800000u)));
    return hn::Or(hn::IfThenElse(special, infinite, scaled), hn::BitCast(d, sign));
  });
}

constexpr Kernel round_f16 = round_lanes<Rounder<F16Format, false>>;
constexpr Kernel store_f16 = store_small<F16Format, uint16_t>;
#endif

template <class T>
void load_bytes(const KernelArgs& args) {
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<T, decltype(d)> narrow;
  map1(narrow, d, args, [d](auto x) ATTACCA_INLINE_LAMBDA { return hn::PromoteTo(d, x); });
}

void load_bool(const KernelArgs& args) {
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> narrow;
  map1(narrow, d, args,
       [d](auto x) ATTACCA_INLINE_LAMBDA { return hn::Min(hn::PromoteTo(d, x), hn::Set(d, 1)); });
}

// The low byte of each lane.
void store_bytes(const KernelArgs& args) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Rebind<uint8_t, decltype(d)> narrow;
  map1(d, narrow, args,
       [narrow](auto x) ATTACCA_INLINE_LAMBDA { return hn::TruncateTo(narrow, x); });
}

template <DType kDType>
const float* decoded_bytes() {
  static const auto table = [] {
    std::array<float, 256> values;
    for (int i = 0; i < 256; ++i) values[i] = ir::decode8(kDType, static_cast<uint8_t>(i));
    return values;
  }();
  return table.data();
}
template <DType kDType>
void load_f8(const KernelArgs& args) {
  const float* table = decoded_bytes<kDType>();
  const auto* in = static_cast<const uint8_t*>(args.in[0]);
  auto* out = static_cast<float*>(args.out);
  for (size_t i = 0; i < args.count; ++i) out[i] = table[in[i]];
}

template <size_t kWidth>
void copy(const KernelArgs& args) {
  std::memcpy(args.out, args.in[0], args.count * kWidth);
}

void int_to_float(const KernelArgs& args) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  map1(di, d, args, [d](auto x) ATTACCA_INLINE_LAMBDA { return hn::ConvertTo(d, x); });
}

// s32 lanes modulo 2^8, or 0 and 1.
template <DType kDType, class D, class V>
HWY_INLINE V wrapped(D d, V x) {
  if constexpr (kDType == DType::S8) return hn::ShiftRight<24>(hn::ShiftLeft<24>(x));
  if constexpr (kDType == DType::U8) return hn::And(x, hn::Set(d, 255));
  if constexpr (kDType == DType::Bool)
    return hn::IfThenElseZero(hn::Ne(x, hn::Zero(d)), hn::Set(d, 1));
  return x;
}

template <DType kDType>
constexpr int32_t kLowest = kDType == DType::S8 ? -128 : 0;
template <DType kDType>
constexpr int32_t kHighest = kDType == DType::S8 ? 127 : 255;

// Truncated and saturated; NaN is 0.
template <DType kDType, class D, class DI>
HWY_INLINE hn::VFromD<DI> to_byte(D d, DI di, hn::VFromD<D> x) {
  const auto low = hn::Set(d, static_cast<float>(kLowest<kDType>));
  const auto high = hn::Set(d, static_cast<float>(kHighest<kDType>));
  const auto number = hn::IfThenElseZero(hn::Eq(x, x), x);
  return hn::ConvertTo(di, hn::Min(hn::Max(number, low), high));
}

// Converts as ir::to_integer does. The f32 numbers from 2^31 on are multiples of 2^8 and wrap to 0.
template <DType kDType, Overflow kOverflow>
void float_to_byte(const KernelArgs& args) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  map1(d, di, args, [&](auto x) ATTACCA_INLINE_LAMBDA {
    if constexpr (kDType == DType::Bool)
      return hn::AndNot(hn::BitCast(di, hn::VecFromMask(d, hn::Eq(x, hn::Zero(d)))),
                        hn::Set(di, 1));
    if constexpr (kOverflow == Overflow::Saturate) return to_byte<kDType>(d, di, x);
    const auto small = hn::Lt(hn::Abs(x), hn::Set(d, 0x1p31f));
    return wrapped<kDType>(di, hn::ConvertTo(di, hn::IfThenElseZero(small, x)));
  });
}

template <DType kDType>
void quantize(const KernelArgs& args) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  const auto scale = hn::Set(d, *static_cast<const float*>(args.in[1]));
  const float origin = *static_cast<const float*>(args.in[2]);
  const auto zero = hn::Set(d, origin);
  if (origin != std::trunc(origin))
    return map1(d, di, args, [&](auto x) ATTACCA_INLINE_LAMBDA {
      return to_byte<kDType>(d, di, hn::Add(hn::Round(hn::Div(x, scale)), zero));
    });
  const auto low = hn::Set(d, static_cast<float>(kLowest<kDType>));
  const auto high = hn::Set(d, static_cast<float>(kHighest<kDType>));
  // The low bits of a small whole number's sum with it are that number.
  const auto magic = hn::Set(d, 0x1.8p23f);
  map1(d, di, args, [&](auto x) ATTACCA_INLINE_LAMBDA {
    const auto whole = hn::Add(hn::Round(hn::Div(x, scale)), zero);
    const auto number = hn::IfThenElseZero(hn::Eq(whole, whole), whole);
    const auto byte = hn::Min(hn::Max(number, low), high);
    return hn::Sub(hn::BitCast(di, hn::Add(byte, magic)), hn::BitCast(di, magic));
  });
}

void dequantize(const KernelArgs& args) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  const auto scale = hn::Set(d, *static_cast<const float*>(args.in[1]));
  const auto zero = hn::Set(d, *static_cast<const float*>(args.in[2]));
  map1(di, d, args, [&](auto x) ATTACCA_INLINE_LAMBDA {
    return hn::Mul(hn::Sub(hn::ConvertTo(d, x), zero), scale);
  });
}

void scale_difference(const KernelArgs& args) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  const auto scale = hn::Set(d, *static_cast<const float*>(args.in[2]));
  map2(di, d, args, [&](auto x, auto y) ATTACCA_INLINE_LAMBDA {
    return hn::Mul(hn::ConvertTo(d, hn::Sub(x, y)), scale);
  });
}

template <Overflow kOverflow>
void float_to_s32(const KernelArgs& args) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<int32_t> di;
  const auto limit = hn::Set(d, 0x1p31f);
  const auto* in = static_cast<const float*>(args.in[0]);
  auto* out = static_cast<int32_t*>(args.out);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  while (i < args.count) {
    if (i + lanes <= args.count) {
      const auto x = hn::LoadU(d, in + i);
      if (hn::AllTrue(d, hn::Lt(hn::Abs(x), limit))) {
        hn::StoreU(hn::ConvertTo(di, x), di, out + i);
        i += lanes;
        continue;
      }
    }
    for (const size_t end = HWY_MIN(args.count, i + lanes); i < end; ++i)
      out[i] =
          static_cast<int32_t>(ir::to_integer(DType::S32, static_cast<double>(in[i]), kOverflow));
  }
}

template <DType kDType, Overflow kOverflow>
void wrap(const KernelArgs& args) {
  const hn::ScalableTag<int32_t> d;
  map1(d, d, args, [d](auto x) ATTACCA_INLINE_LAMBDA {
    if constexpr (kDType == DType::Bool || kOverflow == Overflow::Ieee)
      return wrapped<kDType>(d, x);
    else
      return hn::Min(hn::Max(x, hn::Set(d, kLowest<kDType>)), hn::Set(d, kHighest<kDType>));
  });
}

// What moves each dtype between memory and its lanes.
struct MemoryKernels {
  DType dtype;
  Kernel load, store;
};
constexpr MemoryKernels kMemory[] = {
    {DType::F64, copy<8>, copy<8>},
    {DType::S64, copy<8>, copy<8>},
    {DType::F32, copy<4>, copy<4>},
    {DType::S32, copy<4>, copy<4>},
    {DType::F16, load_f16, store_f16},
    {DType::BF16, load_bf16, store_bf16},
    {DType::F8E4M3, load_f8<DType::F8E4M3>, store_small<F8E4M3Format, uint8_t>},
    {DType::F8E5M2, load_f8<DType::F8E5M2>, store_small<F8E5M2Format, uint8_t>},
    {DType::S8, load_bytes<int8_t>, store_bytes},
    {DType::U8, load_bytes<uint8_t>, store_bytes},
    {DType::Bool, load_bool, store_bytes},
};

// What brings lanes to values of a dtype, by what happens beyond its range.
struct OverflowKernels {
  DType dtype;
  Kernel ieee, saturate;
};
constexpr OverflowKernels kRound[] = {
    {DType::F32, nullptr, round_lanes<Clamper>},
    {DType::F16, round_f16, round_lanes<Rounder<F16Format, true>>},
    {DType::BF16, round_lanes<BFloatRounder<false>>, round_lanes<BFloatRounder<true>>},
    {DType::F8E4M3, round_lanes<Rounder<F8E4M3Format, false>>,
     round_lanes<Rounder<F8E4M3Format, true>>},
    {DType::F8E5M2, round_lanes<Rounder<F8E5M2Format, false>>,
     round_lanes<Rounder<F8E5M2Format, true>>},
};

template <DType kDType>
constexpr OverflowKernels kFloatToByte{kDType, float_to_byte<kDType, Overflow::Ieee>,
                                       float_to_byte<kDType, Overflow::Saturate>};
constexpr OverflowKernels kFloatToInts[] = {
    kFloatToByte<DType::S8>,
    kFloatToByte<DType::U8>,
    kFloatToByte<DType::Bool>,
    {DType::S32, float_to_s32<Overflow::Ieee>, float_to_s32<Overflow::Saturate>}};

template <DType kDType>
constexpr OverflowKernels kWrap{kDType, wrap<kDType, Overflow::Ieee>,
                                wrap<kDType, Overflow::Saturate>};
constexpr OverflowKernels kWraps[] = {kWrap<DType::S8>, kWrap<DType::U8>, kWrap<DType::Bool>};

template <class Row, size_t kRows>
const Row* find(const Row (&table)[kRows], DType dtype) {
  for (const Row& row : table)
    if (row.dtype == dtype) return &row;
  return nullptr;
}

template <size_t kRows>
Kernel find(const OverflowKernels (&table)[kRows], DType dtype, Overflow overflow) {
  const OverflowKernels* row = find(table, dtype);
  if (row == nullptr) return nullptr;
  return overflow == Overflow::Saturate ? row->saturate : row->ieee;
}

}  // namespace

Kernel round_kernel_of(DType dtype, Overflow overflow) {
  return find(kRound, dtype, overflow);
}

Kernel load_kernel_of(DType dtype) {
  return find(kMemory, dtype)->load;
}

Kernel store_kernel_of(DType dtype) {
  return find(kMemory, dtype)->store;
}

Kernel int_to_float_kernel_of() {
  return int_to_float;
}

Kernel float_to_int_kernel_of(DType dtype, Overflow overflow) {
  return find(kFloatToInts, dtype, overflow);
}

Kernel wrap_kernel_of(DType dtype, Overflow overflow) {
  return find(kWraps, dtype, overflow);
}

Kernel quantize_kernel_of(DType dtype) {
  return dtype == DType::S8   ? quantize<DType::S8>
         : dtype == DType::U8 ? quantize<DType::U8>
                              : nullptr;
}

Kernel dequantize_kernel_of() {
  return dequantize;
}

Kernel scale_difference_kernel_of() {
  return scale_difference;
}

#undef ATTACCA_NATIVE_F16
}  // namespace attacca::run::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attacca::run {

HWY_EXPORT(round_kernel_of);
HWY_EXPORT(load_kernel_of);
HWY_EXPORT(store_kernel_of);
HWY_EXPORT(int_to_float_kernel_of);
HWY_EXPORT(float_to_int_kernel_of);
HWY_EXPORT(wrap_kernel_of);
HWY_EXPORT(quantize_kernel_of);
HWY_EXPORT(dequantize_kernel_of);
HWY_EXPORT(scale_difference_kernel_of);

Kernel round_kernel(ir::DType dtype, ir::Overflow overflow) {
  return HWY_DYNAMIC_DISPATCH(round_kernel_of)(dtype, overflow);
}
Kernel load_kernel(ir::DType dtype) {
  return HWY_DYNAMIC_DISPATCH(load_kernel_of)(dtype);
}
Kernel store_kernel(ir::DType dtype) {
  return HWY_DYNAMIC_DISPATCH(store_kernel_of)(dtype);
}
Kernel int_to_float_kernel() {
  return HWY_DYNAMIC_DISPATCH(int_to_float_kernel_of)();
}
Kernel float_to_int_kernel(ir::DType dtype, ir::Overflow overflow) {
  return HWY_DYNAMIC_DISPATCH(float_to_int_kernel_of)(dtype, overflow);
}
Kernel wrap_kernel(ir::DType dtype, ir::Overflow overflow) {
  return HWY_DYNAMIC_DISPATCH(wrap_kernel_of)(dtype, overflow);
}
Kernel quantize_kernel(ir::DType dtype) {
  return HWY_DYNAMIC_DISPATCH(quantize_kernel_of)(dtype);
}
Kernel dequantize_kernel() {
  return HWY_DYNAMIC_DISPATCH(dequantize_kernel_of)();
}
Kernel scale_difference_kernel() {
  return HWY_DYNAMIC_DISPATCH(scale_difference_kernel_of)();
}

}  // namespace attacca::run
#endif
