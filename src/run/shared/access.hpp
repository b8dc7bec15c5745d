// Where a value's elements are, with every symbol replaced by a number.
#pragma once

#include <vector>

#include "epilogue/epilogue.hpp"

namespace attacca::run {

// An epilogue::Access as numbers, in elements.
struct ConcreteAccess {
  int64_t offset = 0;
  std::vector<int64_t> strides;
};
Result<ConcreteAccess> evaluate_access(const epilogue::Access& access,
                                       const ir::SymbolValues& symbols);

}  // namespace attacca::run
