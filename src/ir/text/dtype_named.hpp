// Reads the names of dtypes that users give.
#pragma once

#include <string_view>

#include "ir/graph/dtype.hpp"
#include "support/error.hpp"

namespace attacca::ir {

// Errors: no such dtype; the error is at `where`, such as "--dtype".
Result<DType> dtype_named(std::string_view text, std::string_view where);

}  // namespace attacca::ir
