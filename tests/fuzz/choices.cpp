#include "fuzz/choices.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "support/check.hpp"
#include "support/hash.hpp"
#include "tune/choices_file.hpp"

namespace attacca::fuzz {
namespace {

void read(std::string_view text) {
  // A lookup parses one line, whatever the others are.
  if (const auto file = tune::ChoicesText::open(std::string(text), "fuzz"))
    (void)file->find("p", "m<=1");
  if (const auto file = tune::read_choices(text, "fuzz"))
    ATTACCA_CHECK(tune::write_choices(*file) == text, "what was read is not what is written");
}

}  // namespace

std::string choices_file(std::string_view tools, std::string_view lines) {
  return fmt::format(R"({{"format":"attacca choices 1","device":"GPU","tools":"{}","choices":{},)"
                     R"("hash":"{:016x}"}})"
                     "\n{}",
                     tools, std::count(lines.begin(), lines.end(), '\n'), hash64(lines), lines);
}

void try_choices(std::string_view text) {
  read(text);
  read(choices_file("tools", text));
}

}  // namespace attacca::fuzz
