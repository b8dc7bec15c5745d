// What the fuzzers, and the replay of their corpus, run on an input. Refusing it is the only
// failure allowed.
#pragma once

#include <string_view>

namespace attacca::fuzz {

// A model that is read verifies, prints, and its print reads back.
void try_onnx(std::string_view bytes);
// The same for a text.
void try_text(std::string_view text);

}  // namespace attacca::fuzz
