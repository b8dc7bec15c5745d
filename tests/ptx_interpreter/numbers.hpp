// The types of PTX and their numbers as bits.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

namespace attacca::ptx_interpreter {

enum class Kind : uint8_t { Bits, Unsigned, Signed, Float, Predicate };

struct Format {  // of a binary float
  int exponent_bits = 0;
  int fraction_bits = 0;
};
inline constexpr Format kF16{5, 10}, kBf16{8, 7}, kF32{8, 23};

struct Type {
  Kind kind = Kind::Bits;
  uint32_t bits = 32;   // of one element
  uint32_t lanes = 1;   // 2: f16x2, bf16x2
  bool bfloat = false;  // bf16, where kind is Float and bits 16
  uint32_t bytes() const { return bits * lanes / 8; }
  bool is_float() const { return kind == Kind::Float; }
  bool is_signed() const { return kind == Kind::Signed; }
};

// "f32", "b8", "bf16x2"; nullopt for what is no type, or one that nothing here computes with.
std::optional<Type> to_type(std::string_view name);

enum class Rounding : uint8_t { Nearest, Zero, Down, Up };
// "rn", "rz", "rm", "rp", with or without the i of integral rounding.
std::optional<Rounding> to_rounding(std::string_view name);

// The low bits of a value, zero- or sign-extended to 64.
uint64_t truncate(uint64_t value, uint32_t bits);
int64_t sign_extend(uint64_t value, uint32_t bits);

// A double in a narrower format. NaN becomes the canonical one of PTX: all bits but the sign.
uint64_t encode(double value, Format format, Rounding rounding = Rounding::Nearest);
double decode(uint64_t bits, Format format);

// One element of a float type from and to doubles.
double to_double(uint64_t bits, const Type& type);
uint64_t from_double(double value, const Type& type, Rounding rounding = Rounding::Nearest);

// x + y, x * y + z rounded to odd: rounding that again to a format of at most 51 bits is exact.
double add_to_odd(double x, double y);
double fma_to_odd(double x, double y, double z);

double round_to_integer(double value, Rounding rounding);

}  // namespace attacca::ptx_interpreter
