// Whether a store to the output stores whole elements, so that a tail can precede it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ptx/analysis/function_code.hpp"

namespace attacca::ptx {

struct StoreObstacle {
  std::string rule, what;  // as ptx::Reason
};
// REQUIRES: an `st`.
std::optional<StoreObstacle> store_obstacle(const Step& store, uint32_t element_bytes);

}  // namespace attacca::ptx
