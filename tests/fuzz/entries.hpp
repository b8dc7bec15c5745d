// What the fuzzers and the replay of their corpus run on an input: it may be refused, never more.
#pragma once

#include <string_view>

namespace attacca::fuzz {

// A model that is read verifies, prints and reads again from its text.
void try_onnx(std::string_view bytes);
// A text that parses verifies, prints, and the print parses to the same print.
void try_text(std::string_view text);

}  // namespace attacca::fuzz
