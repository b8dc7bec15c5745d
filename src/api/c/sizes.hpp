// The values of symbols, as the C interface takes them.
#pragma once

#include "fmt/format.h"

#include "api/c/status.hpp"
#include "ir/graph/dim.hpp"

namespace attacca::api {

// Errors: a NULL, a symbol that comes twice.
inline Result<ir::SymbolValues> read_sizes(const attacca_size* sizes, size_t count) {
  if (count > 0) ATTACCA_REQUIRE(sizes);
  ir::SymbolValues values;
  for (size_t i = 0; i < count; ++i) {
    ATTACCA_TRY_VOID(required("sizes", {sizes[i].symbol}));
    if (!values.emplace(sizes[i].symbol, sizes[i].value).second)
      return fail(fmt::format("size {} comes twice", sizes[i].symbol), "sizes", "give it once");
  }
  return values;
}

}  // namespace attacca::api
