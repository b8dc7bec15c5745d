// Characters of UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace attacca {

// Whether a byte continues a character that an earlier byte began.
bool is_continuation(char c);

// The bytes of the character that starts at text[0], or 0 if none does; overlong forms, surrogates
// and values beyond U+10FFFF are not characters. 1 for an empty text.
size_t utf8_length(std::string_view text);

}  // namespace attacca
