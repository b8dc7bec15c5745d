// Messages of bounded length, whatever input they quote.
#pragma once

#include <string>

namespace attacca {

// At most 2,500 bytes of a message: a word of more than 300 bytes keeps its beginning and its end,
// and so does a message that is still too long. UTF-8 characters stay whole.
std::string bounded(std::string message);

}  // namespace attacca
