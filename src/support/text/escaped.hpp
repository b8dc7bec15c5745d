// Text of unknown origin for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace attacca {

// UTF-8 unchanged, except that control characters (of one byte and of two) and invalid bytes become
// \xNN.
std::string escaped(std::string_view text);

}  // namespace attacca
