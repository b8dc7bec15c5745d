#include "ptx_interpreter/numbers.hpp"

#include <cmath>
#include <map>

namespace attacca::ptx_interpreter {

std::optional<Type> to_type(std::string_view name) {
  static const std::map<std::string_view, Type> types = [] {
    std::map<std::string_view, Type> all = {{"pred", {Kind::Predicate, 1}},
                                            {"f16", {Kind::Float, 16}},
                                            {"f32", {Kind::Float, 32}},
                                            {"f64", {Kind::Float, 64}},
                                            {"bf16", {Kind::Float, 16, 1, true}},
                                            {"f16x2", {Kind::Float, 16, 2}},
                                            {"bf16x2", {Kind::Float, 16, 2, true}}};
    static constexpr std::string_view kIntegers[] = {"b8",  "b16", "b32", "b64", "u8",  "u16",
                                                     "u32", "u64", "s8",  "s16", "s32", "s64"};
    for (size_t i = 0; i < std::size(kIntegers); ++i)
      all[kIntegers[i]] = {i < 4   ? Kind::Bits
                           : i < 8 ? Kind::Unsigned
                                   : Kind::Signed,
                           8u << (i % 4)};
    return all;
  }();
  const auto at = types.find(name);
  return at == types.end() ? std::nullopt : std::optional(at->second);
}

std::optional<Rounding> to_rounding(std::string_view name) {
  if (name == "rn" || name == "rni") return Rounding::Nearest;
  if (name == "rz" || name == "rzi") return Rounding::Zero;
  if (name == "rm" || name == "rmi") return Rounding::Down;
  if (name == "rp" || name == "rpi") return Rounding::Up;
  return std::nullopt;
}

uint64_t truncate(uint64_t value, uint32_t bits) {
  return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
}

int64_t sign_extend(uint64_t value, uint32_t bits) {
  const uint32_t unused = bits >= 64 ? 0 : 64 - bits;
  return static_cast<int64_t>(value << unused) >> unused;
}

uint64_t encode(double value, Format format, Rounding rounding) {
  const int width = format.exponent_bits + format.fraction_bits;  // without the sign
  const uint64_t infinity = ((uint64_t{1} << format.exponent_bits) - 1) << format.fraction_bits;
  if (std::isnan(value)) return (uint64_t{1} << width) - 1;
  const uint64_t sign = uint64_t{std::signbit(value)} << width;
  const double magnitude = std::abs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | infinity;

  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  // In units of the last place; exact, since a double's exponent range is much wider.
  const double units = std::ldexp(magnitude, format.fraction_bits - exponent);
  const bool away = rounding == (sign != 0 ? Rounding::Down : Rounding::Up);
  const double rounded = rounding == Rounding::Nearest ? std::nearbyint(units)
                         : away                        ? std::ceil(units)
                                                       : std::floor(units);
  // The hidden bit, where there is one, adds itself to the exponent; a carry does so, too.
  const uint64_t bits = (static_cast<uint64_t>(exponent + bias - 1) << format.fraction_bits) +
                        static_cast<uint64_t>(rounded);
  if (bits < infinity) return sign | bits;
  return sign | (rounding == Rounding::Nearest || away ? infinity : infinity - 1);
}

double decode(uint64_t bits, Format format) {
  const int width = format.exponent_bits + format.fraction_bits;
  const uint64_t fraction = truncate(bits, format.fraction_bits);
  const int exponent =
      static_cast<int>(truncate(bits >> format.fraction_bits, format.exponent_bits));
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  double value;
  if (exponent == (1 << format.exponent_bits) - 1)
    value = fraction != 0 ? NAN : INFINITY;
  else if (exponent == 0)
    value = std::ldexp(static_cast<double>(fraction), 1 - bias - format.fraction_bits);
  else
    value = std::ldexp(static_cast<double>(fraction | uint64_t{1} << format.fraction_bits),
                       exponent - bias - format.fraction_bits);
  return (bits >> width & 1) != 0 ? -value : value;
}

double to_double(uint64_t bits, const Type& type) {
  if (type.bits == 64) return std::bit_cast<double>(bits);
  if (type.bits == 32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return decode(truncate(bits, 16), type.bfloat ? kBf16 : kF16);
}

uint64_t from_double(double value, const Type& type, Rounding rounding) {
  if (type.bits == 64) return std::bit_cast<uint64_t>(value);
  return encode(value, type.bits == 32 ? kF32 : type.bfloat ? kBf16 : kF16, rounding);
}

namespace {

// `sum` with its last bit set where an error was rounded away.
double to_odd(double sum, double error) {
  if (error == 0 || !std::isfinite(sum)) return sum;
  uint64_t bits = std::bit_cast<uint64_t>(sum);
  if ((bits & 1) != 0) return sum;
  // The exact value lies towards the error: one step away from or to zero.
  bits += std::signbit(error) == std::signbit(sum) ? 1 : uint64_t(-1);
  return std::bit_cast<double>(bits);
}

}  // namespace

double add_to_odd(double x, double y) {
  const double sum = x + y, part = sum - x;
  return to_odd(sum, (x - (sum - part)) + (y - part));
}

double fma_to_odd(double x, double y, double z) {
  // Exact for factors of at most 26 bits.
  return add_to_odd(x * y, z);
}

double round_to_integer(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::Nearest:
      return std::nearbyint(value);
    case Rounding::Zero:
      return std::trunc(value);
    case Rounding::Down:
      return std::floor(value);
    case Rounding::Up:
      return std::ceil(value);
  }
  return value;
}

}  // namespace attacca::ptx_interpreter
