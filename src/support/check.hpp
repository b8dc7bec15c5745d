// A broken invariant of our own aborts loudly, with the place. Never for bad input
// (support/error.hpp).
#pragma once

#include <string_view>

namespace attacca {

[[noreturn]] void check_failed(const char* condition, std::string_view message, const char* file,
                               int line);

}  // namespace attacca

#define ATTACCA_CHECK(condition, message)                                               \
  do {                                                                                  \
    if (!(condition)) ::attacca::check_failed(#condition, message, __FILE__, __LINE__); \
  } while (false)
