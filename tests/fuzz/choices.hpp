// What the fuzzer of tuned choices, and the replay of its corpus, run on an input.
#pragma once

#include <string>
#include <string_view>

namespace attacca::fuzz {

// A file that is read is what is written again; so is one with these lines.
void try_choices(std::string_view text);
// A file with these lines, whatever they are, under a first line that fits them.
std::string choices_file(std::string_view tools, std::string_view lines);

}  // namespace attacca::fuzz
