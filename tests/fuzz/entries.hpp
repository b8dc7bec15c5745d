// What the fuzzers, and the replay of their corpus, run on an input. Refusing it is the only
// failure allowed.
#pragma once

#include <string_view>

namespace attacca::fuzz {

// A model of this format (import/formats.hpp) that is read verifies, prints, and its print reads
// back.
void try_format(std::string_view name, std::string_view bytes);

}  // namespace attacca::fuzz
