// Standard error, which a caller may have closed or filled. What cannot be written is lost; the
// program goes on.
#pragma once

#include <string_view>

namespace attacca {

void print_to_stderr(std::string_view text);

}  // namespace attacca
