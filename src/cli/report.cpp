#include "fmt/format.h"

#include "cli/commands.hpp"
#include "cli/version.hpp"

namespace attacca::cli {

int report(const Error& error) {
  fmt::print(stderr, "{}", to_string(error));
  return kBadInput;
}

Result<std::map<std::string, std::string>> parse_pairs(const std::vector<std::string>& texts,
                                                       const std::string& option) {
  std::map<std::string, std::string> pairs;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size())
      return fail(fmt::format("{} is no NAME=VALUE", text), option,
                  fmt::format("write {} NAME=VALUE", option));
    if (!pairs.emplace(text.substr(0, equals), text.substr(equals + 1)).second)
      return fail(fmt::format("{} is given twice", text.substr(0, equals)), option);
  }
  return pairs;
}

int version() {
  fmt::print("attacca {}\n", kVersion);
  return kOk;
}

}  // namespace attacca::cli
