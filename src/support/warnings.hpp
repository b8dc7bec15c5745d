// Problems that do not make a request fail, such as a cache that cannot be used.
#pragma once

#include <vector>

#include "support/error.hpp"

namespace attacca {

// Thread-safe. Of warnings with the same `what` only the first is kept, since one cause may affect
// many files.
void warn(const Error& warning);
// All warnings of this process so far, in order.
std::vector<Error> warnings();

}  // namespace attacca
