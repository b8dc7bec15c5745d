// Dtypes that users name.
#pragma once

#include <string_view>

#include "ir/graph/dtype.hpp"
#include "support/error.hpp"

namespace attacca::ir {

// Errors: no such dtype; `where` is what named it ("--dtype").
Result<DType> dtype_named(std::string_view text, std::string_view where);

}  // namespace attacca::ir
