// The dtype of a matrix product, decided here for graphs, epilogue texts, the C API and `bench`.
#pragma once

#include <optional>

#include "ir/graph/dtype.hpp"
#include "support/error.hpp"

namespace attacca::ir {

// Bytes give s32, 8-bit floats of either kind f32, others what promote gives. `wanted` is another
// float dtype for floats, what the product is rounded to in eager mode; never an 8-bit one, which
// only a cast gives. Errors: a pair of dtypes, or a `wanted`, that no product has.
Result<DType> product_dtype(DType a, DType b, std::optional<DType> wanted = std::nullopt);

// What an API gives where its caller names no dtype of the result: the product's, but bf16 for
// 8-bit floats. REQUIRES: product_dtype(operand, operand) has a value.
DType default_result(DType operand);

}  // namespace attacca::ir
