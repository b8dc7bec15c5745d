#include "epilogue/code/memory_code.hpp"

#include "fmt/format.h"

#include "support/check.hpp"

namespace attacca::epilogue {

using ir::DType;

std::string_view memory_type(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return "double";
    case DType::F32:
      return "float";
    case DType::F16:
    case DType::BF16:
      return "unsigned short";
    case DType::F8E4M3:
    case DType::F8E5M2:
    case DType::U8:
    case DType::Bool:
      return "unsigned char";
    case DType::S8:
      return "signed char";
    case DType::S32:
      return "int";
    case DType::S64:
      return "long long";
  }
  return {};
}

std::string from_bits(DType dtype, const std::string& bits) {
  switch (dtype) {
    case DType::F32:
      return fmt::format("__uint_as_float({})", bits);
    case DType::F16:
    case DType::BF16:
    case DType::F8E4M3:
    case DType::F8E5M2:
      return fmt::format("attacca_decode_{}({})", ir::name(dtype), bits);
    case DType::S8:
      return fmt::format("(int)(signed char){}", bits);
    case DType::Bool:
      return fmt::format("(int)({} != 0)", bits);
    case DType::U8:
    case DType::S32:
      return fmt::format("(int){}", bits);
    case DType::F64:
    case DType::S64:
      break;
  }
  ATTACCA_CHECK(false, "a slot of 64 bits");
}

std::string from_memory(DType dtype, const std::string& loaded) {
  if (ir::is_float(dtype) && ir::info(dtype).bits < 32)
    return fmt::format("attacca_decode_{}({})", ir::name(dtype), loaded);
  if (dtype == DType::Bool) return fmt::format("(int)({} != 0)", loaded);
  return loaded;
}
std::string to_memory(DType dtype, const std::string& value) {
  if (ir::is_float(dtype) && ir::info(dtype).bits < 32)
    return fmt::format("({})attacca_encode_{}({})", memory_type(dtype), ir::name(dtype), value);
  return fmt::format("({}){}", memory_type(dtype), value);
}

std::string to_word(DType dtype, const std::string& value) {
  return dtype == DType::F32 ? fmt::format("__float_as_uint({})", value)
                             : fmt::format("(uint32_t){}", value);
}

}  // namespace attacca::epilogue
