#include "support/text/standard_error.hpp"

#include <cstdio>

namespace attacca {

void print_to_stderr(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

}  // namespace attacca
