#include "support/check.hpp"

#include <cstdlib>

#include "fmt/core.h"

namespace attacca {

void check_failed(const char* condition, std::string_view message, const char* file, int line) {
  fmt::print(stderr, "attacca: internal error at {}:{}: {} ({})\n", file, line, message, condition);
  std::abort();
}

}  // namespace attacca
