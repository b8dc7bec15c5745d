// How far tensors reach in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace attacca::ir {

// The number of elements from a tensor's first to its last in memory, both included; 0 if it has
// none. nullopt: beyond int64_t. REQUIRES: strides >= 0.
std::optional<int64_t> span_of(const std::vector<int64_t>& shape,
                               const std::vector<int64_t>& strides);

}  // namespace attacca::ir
