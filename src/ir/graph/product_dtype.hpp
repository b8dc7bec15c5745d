// The dtype of a matrix product, decided here for graphs, epilogue texts, the C API and `bench`.
#pragma once

#include <optional>

#include "ir/graph/dtype.hpp"
#include "support/error.hpp"

namespace attacca::ir {

// The dtype of a product of these operands: s32 for bytes, f32 for 8-bit floats, promote(a, b) for
// others. `wanted`, for floats: another float dtype, to which eager mode rounds the product. It is
// never an 8-bit one: only a cast gives that. Errors: no product has these dtypes, or `wanted`.
Result<DType> product_dtype(DType a, DType b, std::optional<DType> wanted = std::nullopt);

// The result's dtype where the caller of an API names none: the product's, except bf16 for 8-bit
// floats. REQUIRES: product_dtype(operand, operand) has a value.
DType default_result(DType operand);

}  // namespace attacca::ir
