#include "support/hash.hpp"

#include <xxhash.h>

namespace attacca {

uint64_t hash64(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace attacca
