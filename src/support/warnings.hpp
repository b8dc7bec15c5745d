// What went wrong without being an error of any request, such as a cache that cannot be used.
#pragma once

#include <vector>

#include "support/error.hpp"

namespace attacca {

// Thread-safe. Of warnings with the same `what` the first is kept: one cause, many files.
void warn(const Error& warning);
// All of this process so far, the first first.
std::vector<Error> warnings();

}  // namespace attacca
