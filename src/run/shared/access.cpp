#include "run/shared/access.hpp"

namespace attacca::run {

Result<ConcreteAccess> evaluate_access(const epilogue::Access& access,
                                       const ir::SymbolValues& symbols) {
  ConcreteAccess result;
  const auto number = [&](const ir::Dim& dim) -> Result<int64_t> {
    if (const auto value = dim.maybe_value()) return *value;
    const auto positive = dim.evaluate(symbols);
    if (positive) return positive;
    // A step backwards along a symbolic axis.
    const auto negative = (ir::Dim(0) - dim).evaluate(symbols);
    if (negative) return -*negative;
    return positive;
  };
  ATTACCA_TRY(result.offset, number(access.offset));
  for (const ir::Dim& dim : access.strides) {
    ATTACCA_TRY(const int64_t stride, number(dim));
    result.strides.push_back(stride);
  }
  return result;
}

}  // namespace attacca::run
