// Numbers that environment variables give to tests; CONTRIBUTING.md lists them.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>

namespace attacca {

// Nothing if it is unset or empty. Throws if it is not a number.
inline std::optional<uint64_t> setting(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == 0) return {};
  char* end = nullptr;
  const uint64_t number = std::strtoull(text, &end, 10);
  if (*end != 0) throw std::invalid_argument(std::string(name) + " is not a number: " + text);
  return number;
}

inline uint64_t setting(const char* name, uint64_t otherwise) {
  return setting(name).value_or(otherwise);
}

}  // namespace attacca
