#pragma once

#include <cstdint>
#include <string_view>

namespace attacca {

// xxHash's XXH3, 64 bits. Stable over machines and versions.
uint64_t hash64(std::string_view bytes);

}  // namespace attacca
