#include "ir/graph/product_dtype.hpp"

#include "fmt/format.h"

namespace attacca::ir {
namespace {

Result<DType> natural_dtype(DType a, DType b) {
  const auto pair = [&] { return fmt::format("matmul of {} with {}", name(a), name(b)); };
  if (!(is_float(a) && is_float(b)) && !(is_integer(a) && is_integer(b)))
    return fail(pair(), {}, "cast or dequantize the integer operand first");
  if (is_byte(a) && is_byte(b)) return DType::S32;
  if (is_fp8(a) && is_fp8(b)) return DType::F32;
  const auto promoted = promote(a, b);
  if (!promoted) return fail(pair(), {}, "cast the fp8 operand, e.g. cast(w, bf16)");
  return *promoted;
}

}  // namespace

Result<DType> product_dtype(DType a, DType b, std::optional<DType> wanted) {
  ATTACCA_TRY(const DType natural, natural_dtype(a, b));
  if (!wanted || *wanted == natural) return natural;
  const auto refuse = [&](std::string fix) {
    return fail(fmt::format("matmul of {} with {} cannot give {}", name(a), name(b), name(*wanted)),
                {}, std::move(fix));
  };
  if (is_integer(natural))
    return refuse(fmt::format("leave out= away and cast the {} result", name(natural)));
  if (!is_float(*wanted)) return refuse("out= takes a float dtype");
  if (is_fp8(*wanted))
    return refuse(fmt::format("leave out= away and write cast(matmul(...), {}, saturate=true)",
                              name(*wanted)));
  return *wanted;
}

DType default_result(DType operand) {
  return is_fp8(operand) ? DType::BF16 : product_dtype(operand, operand).value_or(operand);
}

}  // namespace attacca::ir
