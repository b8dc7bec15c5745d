#include "support/error.hpp"

#include "support/text/excerpt.hpp"

namespace attacca {

std::string to_string(const Error& whole) {
  const Error error = bounded(whole);
  std::string text = "error: " + error.what + "\n";
  if (!error.where.empty()) text += "  at: " + error.where + "\n";
  if (!error.fix.empty()) text += "  fix: " + error.fix + "\n";
  return text;
}

}  // namespace attacca
