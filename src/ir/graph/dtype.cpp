#include "ir/graph/dtype.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "support/check.hpp"

namespace attacca::ir {
namespace {

constexpr DTypeInfo kDTypes[] = {
#define X(name, text, bits, cls) {DType::name, text, bits, DTypeClass::cls},
    ATTACCA_DTYPES(X)
#undef X
};

// A binary float format: `fraction` stored bits, exponents from `min_exponent` (of the smallest
// normal) up, and the largest finite value. f8e4m3 is the OCP "fn" form: no infinity, one NaN.
struct Format {
  int fraction;
  int exponent_bits;
  int bias;
  double largest;
  bool has_infinity;
};

constexpr Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return {23, 8, 127, std::numeric_limits<float>::max(), true};
    case DType::F16:
      return {10, 5, 15, 65504.0, true};
    case DType::BF16:
      return {7, 8, 127, 0x1.FEp127, true};
    case DType::F8E4M3:
      return {3, 4, 7, 448.0, false};
    case DType::F8E5M2:
      return {2, 5, 15, 57344.0, true};
    default:
      return {52, 11, 1023, std::numeric_limits<double>::max(), true};
  }
}

// 2 to the power of -1022 to 1023.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52);
}

// Of a normal number: the power of two that its magnitude begins with. Of a subnormal one and 0:
// a number below those of all normal ones.
int exponent_of(double x) {
  return static_cast<int>(std::bit_cast<uint64_t>(x) >> 52 & 0x7FF) - 1023;
}

uint32_t encode_small(DType dtype, float x, Overflow overflow) {
  const Format f = format_of(dtype);
  const uint32_t sign = std::signbit(x) ? 1u << (f.exponent_bits + f.fraction) : 0u;
  const uint32_t exponent_mask = (1u << f.exponent_bits) - 1;
  const double rounded = round_to(dtype, x, overflow);
  const uint32_t quiet_nan = f.has_infinity
                                 ? (exponent_mask << f.fraction) | (1u << (f.fraction - 1))
                                 : (1u << (f.exponent_bits + f.fraction)) - 1;
  if (std::isnan(rounded)) return sign | quiet_nan;
  if (std::isinf(rounded)) return sign | (exponent_mask << f.fraction);
  const double magnitude = std::fabs(rounded);
  if (magnitude == 0) return sign;
  const int exponent = std::max(exponent_of(magnitude), 1 - f.bias);
  const auto significand =
      static_cast<uint32_t>(magnitude * power_of_two(f.fraction - exponent));  // exact
  const uint32_t hidden = 1u << f.fraction;
  if (significand < hidden) return sign | significand;  // subnormal
  return sign | (static_cast<uint32_t>(exponent + f.bias) << f.fraction) | (significand - hidden);
}

float decode_small(DType dtype, uint32_t bits) {
  const Format f = format_of(dtype);
  const bool negative = (bits >> (f.exponent_bits + f.fraction)) & 1;
  const uint32_t exponent_mask = (1u << f.exponent_bits) - 1;
  const uint32_t exponent = (bits >> f.fraction) & exponent_mask;
  const uint32_t fraction = bits & ((1u << f.fraction) - 1);
  float magnitude;
  if (f.has_infinity && exponent == exponent_mask) {
    magnitude =
        fraction ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  } else if (!f.has_infinity && exponent == exponent_mask && fraction == (1u << f.fraction) - 1) {
    magnitude = std::numeric_limits<float>::quiet_NaN();
  } else {
    const uint32_t significand = exponent == 0 ? fraction : fraction + (1u << f.fraction);
    const int last_place = std::max(static_cast<int>(exponent), 1) - f.bias - f.fraction;
    magnitude = static_cast<float>(significand * power_of_two(last_place));  // exact
  }
  return negative ? -magnitude : magnitude;
}

struct Range {
  int64_t low, high;
};

Range range_of(DType dtype) {
  switch (dtype) {
    case DType::S8:
      return {-128, 127};
    case DType::U8:
      return {0, 255};
    case DType::S32:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    default:
      return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  }
}

}  // namespace

const DTypeInfo& info(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)];
}

std::optional<DType> parse_dtype(std::string_view text) {
  for (const DTypeInfo& entry : kDTypes)
    if (entry.name == text) return entry.dtype;
  return std::nullopt;
}

std::string_view all_dtype_names() {
  return "f64, f32, f16, bf16, f8e4m3, f8e5m2, s8, u8, s32, s64, bool";
}

std::optional<DType> promote(DType a, DType b) {
  if (a == b) return a;
  if (is_fp8(a) || is_fp8(b)) return std::nullopt;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) {
    const bool halves = info(a).bits == 16 && info(b).bits == 16;
    if (halves) return DType::F32;
    return info(a).bits > info(b).bits ? a : b;
  }
  if (a == DType::Bool) return b;
  if (b == DType::Bool) return a;
  if (info(a).bits == info(b).bits) return DType::S32;  // s8 with u8
  return info(a).bits > info(b).bits ? a : b;
}

double round_to(DType dtype, double x, Overflow overflow) {
  if (dtype == DType::F64 || !is_float(dtype) || std::isnan(x)) return x;
  const Format f = format_of(dtype);
  double rounded;
  if (dtype == DType::F32) {
    rounded = static_cast<double>(static_cast<float>(x));
  } else if (std::isinf(x) || x == 0) {
    rounded = x;
  } else {
    // Scale so that one unit is the last place, round to an integer (ties to even), scale back:
    // every step but the rounding is exact. Numbers as large as kRounds have no fraction.
    constexpr double kRounds = 0x1.8p52;
    const int last_place = std::max(exponent_of(x), 1 - f.bias) - f.fraction;
    const double scaled = x * power_of_two(-last_place);
    rounded = std::copysign(((scaled + kRounds) - kRounds) * power_of_two(last_place), x);
  }
  if (std::fabs(rounded) <= f.largest) return rounded;
  if (overflow == Overflow::Saturate) return std::copysign(f.largest, x);
  return std::copysign(f.has_infinity ? std::numeric_limits<double>::infinity()
                                      : std::numeric_limits<double>::quiet_NaN(),
                       x);
}

int64_t to_integer(DType dtype, double x, Overflow overflow) {
  if (dtype == DType::Bool) return x != 0;
  if (std::isnan(x)) return 0;
  const Range range = range_of(dtype);
  const double truncated = std::trunc(x);
  constexpr double kLimit = 0x1p63;
  if (overflow == Overflow::Saturate) {
    if (truncated <= static_cast<double>(range.low)) return range.low;
    if (truncated >= static_cast<double>(range.high)) return range.high;
    return static_cast<int64_t>(truncated);
  }
  const int64_t wide = truncated >= kLimit || truncated < -kLimit
                           ? std::numeric_limits<int64_t>::min()
                           : static_cast<int64_t>(truncated);
  return to_integer(dtype, wide, Overflow::Ieee);
}

int64_t to_integer(DType dtype, int64_t x, Overflow overflow) {
  if (dtype == DType::Bool) return x != 0;
  const Range range = range_of(dtype);
  if (overflow == Overflow::Saturate) return std::min(std::max(x, range.low), range.high);
  switch (dtype) {
    case DType::S8:
      return static_cast<int8_t>(x);
    case DType::U8:
      return static_cast<uint8_t>(x);
    case DType::S32:
      return static_cast<int32_t>(x);
    default:
      return x;
  }
}

uint16_t encode16(DType dtype, float x, Overflow overflow) {
  ATTACCA_CHECK(is_half(dtype), "not a 16-bit float");
  if (dtype == DType::BF16 && overflow == Overflow::Ieee) {
    const auto bits = std::bit_cast<uint32_t>(x);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
  }
  return static_cast<uint16_t>(encode_small(dtype, x, overflow));
}

float decode16(DType dtype, uint16_t bits) {
  ATTACCA_CHECK(is_half(dtype), "not a 16-bit float");
  if (dtype == DType::BF16) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  return decode_small(dtype, bits);
}

uint8_t encode8(DType dtype, float x, Overflow overflow) {
  ATTACCA_CHECK(is_fp8(dtype), "not an fp8 dtype");
  return static_cast<uint8_t>(encode_small(dtype, x, overflow));
}

float decode8(DType dtype, uint8_t bits) {
  ATTACCA_CHECK(is_fp8(dtype), "not an fp8 dtype");
  const auto decoded = [](DType of) {
    std::array<float, 256> values;
    for (uint32_t byte = 0; byte < values.size(); ++byte) values[byte] = decode_small(of, byte);
    return values;
  };
  static const auto e4m3 = decoded(DType::F8E4M3), e5m2 = decoded(DType::F8E5M2);
  return (dtype == DType::F8E4M3 ? e4m3 : e5m2)[bits];
}

}  // namespace attacca::ir
