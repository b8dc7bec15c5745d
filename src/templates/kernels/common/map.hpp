// A tensor map in a kernel's parameters (host/tensor_map.hpp fills it).
#pragma once

#include <cstdint>

// The bytes of a CUtensorMap.
struct alignas(64) Map {
  uint64_t words[16];
};
