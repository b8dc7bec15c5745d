// Symbols' values, read from the shapes of a plan's inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attacca/attacca.hpp"
#include "plugin/instance_cache.hpp"

namespace attacca::torch_ops {

// factor * symbol + offset
struct Linear {
  std::string symbol;
  int64_t factor = 0, offset = 0;
};

// An extent as plans print it: "M", "4096", "2*M + 1". nullopt where it has no symbol, several, or
// a product of symbols.
std::optional<Linear> linear(std::string_view extent);

using plugin::Shape;

// The value of each symbol, from an extent that is linear in it. The shapes are not compared with
// the plan's. Errors: a symbol that no extent determines.
Result<std::vector<std::pair<std::string, int64_t>>> sizes_of(
    const std::vector<std::string>& symbols, const std::vector<TensorInfo>& inputs,
    const std::vector<Shape>& shapes);

}  // namespace attacca::torch_ops
