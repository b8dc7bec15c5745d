// CUDA C++ that converts values of a dtype from and to memory and 32-bit words.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph/dtype.hpp"

namespace attacca::epilogue {

inline constexpr std::string_view kWordTypes = R"(#ifndef ATTACCA_FIXED_WIDTH_TYPES
#define ATTACCA_FIXED_WIDTH_TYPES
typedef unsigned int uint32_t;
typedef int int32_t;
#endif
)";

// The C++ type that memory holds.
std::string_view memory_type(ir::DType dtype);

// A value from raw, zero-extended bits of a word of 32 bits. REQUIRES: at most 32 bits.
std::string from_bits(ir::DType dtype, const std::string& bits);

// A value from a loaded memory_type(), and back.
std::string from_memory(ir::DType dtype, const std::string& loaded);
std::string to_memory(ir::DType dtype, const std::string& value);

// A value of 32 bits as a word.
std::string to_word(ir::DType dtype, const std::string& value);

}  // namespace attacca::epilogue
