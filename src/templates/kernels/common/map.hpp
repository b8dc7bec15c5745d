// A map of copies by TMA in a kernel's parameters (tensor_map.hpp fills it).
#pragma once

#include <cstdint>

// A CUtensorMap.
struct alignas(64) Map {
  uint64_t words[16];
};
