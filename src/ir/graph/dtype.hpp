// Element types, and the exact conversion of a number to each of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace attacca::ir {

// X(enumerator, text name, bits, class)
#define ATTACCA_DTYPES(X)       \
  X(F64, "f64", 64, Float)      \
  X(F32, "f32", 32, Float)      \
  X(F16, "f16", 16, Float)      \
  X(BF16, "bf16", 16, Float)    \
  X(F8E4M3, "f8e4m3", 8, Float) \
  X(F8E5M2, "f8e5m2", 8, Float) \
  X(S8, "s8", 8, Signed)        \
  X(U8, "u8", 8, Unsigned)      \
  X(S32, "s32", 32, Signed)     \
  X(S64, "s64", 64, Signed)     \
  X(Bool, "bool", 8, Boolean)

enum class DType : uint8_t {
#define X(name, text, bits, cls) name,
  ATTACCA_DTYPES(X)
#undef X
};

enum class DTypeClass : uint8_t { Float, Signed, Unsigned, Boolean };

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int bits;
  DTypeClass cls;
};

const DTypeInfo& info(DType dtype);
inline std::string_view name(DType dtype) {
  return info(dtype).name;
}
inline int64_t size_of(DType dtype) {
  return info(dtype).bits / 8;
}
inline bool is_float(DType dtype) {
  return info(dtype).cls == DTypeClass::Float;
}
inline bool is_integer(DType dtype) {
  return info(dtype).cls == DTypeClass::Signed || info(dtype).cls == DTypeClass::Unsigned;
}
inline bool is_fp8(DType dtype) {
  return dtype == DType::F8E4M3 || dtype == DType::F8E5M2;
}
// A float of 16 bits.
inline bool is_half(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16;
}
// An integer of 8 bits.
inline bool is_byte(DType dtype) {
  return dtype == DType::S8 || dtype == DType::U8;
}
std::optional<DType> parse_dtype(std::string_view text);
// Every dtype's name, for messages: "f64, f32, ...".
std::string_view all_dtype_names();

// The type in which an operation on two dtypes is done, as torch.promote_types: a float wins over
// an integer, f16 with bf16 gives f32, s8 with u8 gives s32. nullopt where a cast must be written:
// fp8 with anything else.
std::optional<DType> promote(DType a, DType b);

// What a value beyond the largest finite one becomes on rounding. Ieee: infinity, or NaN in f8e4m3,
// which has no infinity, as in PyTorch and ml_dtypes. Saturate: the largest finite value, and for
// integers the end of the range, as in ONNX's QuantizeLinear. NaN stays NaN in floats.
enum class Overflow : uint8_t { Ieee, Saturate };

// Round to nearest even to a float dtype. f64 returns x itself.
double round_to(DType dtype, double x, Overflow overflow = Overflow::Ieee);

// A float to an integer dtype: Ieee truncates toward zero and wraps modulo 2^bits (via s64, as
// PyTorch on x86), Saturate truncates and clamps. NaN becomes 0. Bool is x != 0.
int64_t to_integer(DType dtype, double x, Overflow overflow = Overflow::Ieee);
// An integer wrapped (or, with Saturate, clamped) into an integer dtype; Bool is x != 0.
int64_t to_integer(DType dtype, int64_t x, Overflow overflow = Overflow::Ieee);

// The bits of a value already representable in the dtype, and back. f16, bf16 and fp8 only.
uint16_t encode16(DType dtype, float x, Overflow overflow = Overflow::Ieee);
float decode16(DType dtype, uint16_t bits);
uint8_t encode8(DType dtype, float x, Overflow overflow = Overflow::Ieee);
float decode8(DType dtype, uint8_t bits);

}  // namespace attacca::ir
