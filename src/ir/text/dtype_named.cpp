#include "ir/text/dtype_named.hpp"

#include <string>

#include "fmt/format.h"

namespace attacca::ir {

Result<DType> dtype_named(std::string_view text, std::string_view where) {
  if (const auto dtype = parse_dtype(text)) return *dtype;
  return fail(fmt::format("unknown dtype {}", text), std::string(where),
              fmt::format("one of {}", all_dtype_names()));
}

}  // namespace attacca::ir
