#pragma once

#include <cstdint>

namespace attacca {

// Bytes of memory in this machine: a request beyond it is refused instead of being killed.
int64_t physical_memory();

}  // namespace attacca
