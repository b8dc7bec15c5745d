#include "epilogue/code/value_code.hpp"

#include <cmath>

#include "fmt/format.h"

namespace attacca::epilogue {

using ir::DType;

Lane lane_of(DType dtype) {
  if (dtype == DType::F64) return Lane::F64;
  if (ir::is_float(dtype)) return Lane::F32;
  return dtype == DType::S64 ? Lane::S64 : Lane::S32;
}

std::string_view type_of(Lane lane) {
  static constexpr std::string_view kTypes[] = {"float", "double", "int", "long long"};
  return kTypes[static_cast<size_t>(lane)];
}

namespace {

template <class T>
std::string number_text(T x, std::string_view suffix, std::string_view from_bits,
                        std::string_view infinity, std::string_view nan) {
  if (std::isnan(x)) return fmt::format("{}({})", from_bits, nan);
  if (std::isinf(x)) return fmt::format("({}{}({}))", x < 0 ? "-" : "", from_bits, infinity);
  std::string text = fmt::format("{}", x);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  text += suffix;
  return std::signbit(x) ? "(" + text + ")" : text;
}

std::string integer_text(int64_t x, Lane lane) {
  if (lane == Lane::S32) {
    if (x == INT32_MIN) return "(-2147483647 - 1)";
    return x < 0 ? fmt::format("({})", x) : fmt::format("{}", x);
  }
  if (x == INT64_MIN) return "(-9223372036854775807ll - 1)";
  return x < 0 ? fmt::format("({}ll)", x) : fmt::format("{}ll", x);
}

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return 65504.0;
    case DType::BF16:
      return 0x1.FEp127;
    case DType::F8E4M3:
      return 448.0;
    case DType::F8E5M2:
      return 57344.0;
    default:
      return 0x1.FFFFFEp127;
  }
}

}  // namespace

std::string float_text(double x) {
  return number_text(static_cast<float>(x), "f", "__uint_as_float", "0x7F800000u", "0x7FC00000u");
}

std::string double_text(double x) {
  return number_text(x, "", "__longlong_as_double", "0x7FF0000000000000ll", "0x7FF8000000000000ll");
}

std::string literal_text(double literal, DType dtype) {
  switch (lane_of(dtype)) {
    case Lane::F32:
      return float_text(literal);
    case Lane::F64:
      return double_text(literal);
    case Lane::S32:
    case Lane::S64:
      return integer_text(ir::to_integer(dtype, literal), lane_of(dtype));
  }
  return {};
}

std::string operand(const Term& value, Lane lane) {
  const Lane from = lane_of(value.dtype);
  if (from == lane) return value.text;
  // Integers of 64 bits reach f32 through f64, as in the interpreter.
  if (lane == Lane::F32 && from == Lane::S64) return fmt::format("(float)(double){}", value.text);
  return fmt::format("({}){}", type_of(lane), value.text);
}

std::string wrapped(const std::string& code, DType dtype) {
  switch (dtype) {
    case DType::S8:
      return fmt::format("(int)(signed char)({})", code);
    case DType::U8:
      return fmt::format("(int)(unsigned char)({})", code);
    case DType::Bool:
      return fmt::format("(int)(({}) != 0)", code);
    case DType::S32:
      return fmt::format("(int)({})", code);
    default:
      return code;
  }
}

std::string rounded(const std::string& code, DType dtype) {
  if (dtype == DType::F32 || dtype == DType::F64) return code;
  return fmt::format("attacca_round_{}({})", ir::name(dtype), code);
}

namespace {

std::string integer_to_integer(const Term& x, DType dtype, bool saturate) {
  if (dtype == DType::S64) return operand(x, Lane::S64);
  if (saturate && dtype == x.dtype) return x.text;
  if (saturate) return fmt::format("attacca_clamp_{}({})", ir::name(dtype), x.text);
  return wrapped(x.text, dtype);
}

}  // namespace

std::string converted(const Term& x, DType dtype, bool saturate) {
  const Lane from = lane_of(x.dtype), to = lane_of(dtype);
  const bool floats = from == Lane::F32 || from == Lane::F64;
  if (to == Lane::F64) return operand(x, to);
  if (to == Lane::F32) {
    const bool narrows = dtype != DType::F32;
    std::string code = x.text;
    if (from == Lane::F64 && narrows)
      code = fmt::format("attacca_odd({})", x.text);
    else
      code = operand(x, Lane::F32);
    if (saturate)
      code = fmt::format("attacca_saturate({}, {})", code, float_text(largest_of(dtype)));
    return rounded(code, dtype);
  }
  if (dtype == DType::Bool) return fmt::format("(int)({} != 0)", x.text);
  if (!floats) return integer_to_integer(x, dtype, saturate);
  if (saturate) return fmt::format("attacca_clamp_{}({})", ir::name(dtype), x.text);
  if (dtype == DType::S64) return fmt::format("attacca_to_s64({})", x.text);
  return wrapped(fmt::format("attacca_to_s32({})", x.text), dtype);
}

std::string stored_value(const Term& value, DType dtype) {
  const Lane from = lane_of(value.dtype), to = lane_of(dtype);
  if (from == to && (to == Lane::F32 || to == Lane::F64 || value.dtype == dtype)) return value.text;
  if (to == Lane::F32 && from == Lane::F64)
    return dtype == DType::F32 ? operand(value, to) : fmt::format("attacca_odd({})", value.text);
  return converted(value, dtype, false);
}

}  // namespace attacca::epilogue
