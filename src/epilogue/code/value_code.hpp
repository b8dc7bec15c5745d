// CUDA C++ text of single values: literals and conversions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/graph/dtype.hpp"

namespace attacca::epilogue {

// The C++ type that holds a value of the dtype.
enum class Lane : uint8_t { F32, F64, S32, S64 };

Lane lane_of(ir::DType dtype);
std::string_view type_of(Lane lane);  // "float"

// A value of the graph in emitted code.
struct Term {
  std::string text;  // a variable or a literal
  ir::DType dtype = ir::DType::F32;
};

std::string float_text(double x);
std::string double_text(double x);
std::string literal_text(double literal, ir::DType dtype);

// The value as an operand in a lane.
std::string operand(const Term& value, Lane lane);
// Integer code brought into the dtype's range modulo 2^bits.
std::string wrapped(const std::string& code, ir::DType dtype);
// f32 code rounded to a float dtype.
std::string rounded(const std::string& code, ir::DType dtype);
// A cast.
std::string converted(const Term& x, ir::DType dtype, bool saturate);
// The value in the lane of the memory's dtype. The store rounds it.
std::string stored_value(const Term& value, ir::DType dtype);

}  // namespace attacca::epilogue
