#include "support/check.hpp"

#include <cstdlib>

#include "fmt/format.h"

#include "support/text/standard_error.hpp"

namespace attacca {

void check_failed(const char* condition, std::string_view message, const char* file, int line) {
  print_to_stderr(
      fmt::format("attacca: internal error at {}:{}: {} ({})\n", file, line, message, condition));
  std::abort();
}

}  // namespace attacca
