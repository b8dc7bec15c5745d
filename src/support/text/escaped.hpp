// Text of unknown origin for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace attacca {

// UTF-8 as it is, but control characters (of one byte and of two) and what is no UTF-8 as \xNN.
std::string escaped(std::string_view text);

}  // namespace attacca
