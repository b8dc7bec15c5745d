#include "support/error.hpp"

#include "support/text/excerpt.hpp"

namespace attacca {

std::string to_string(const Error& error) {
  std::string text = "error: " + bounded(error.what) + "\n";
  if (!error.where.empty()) text += "  at: " + bounded(error.where) + "\n";
  if (!error.fix.empty()) text += "  fix: " + bounded(error.fix) + "\n";
  return text;
}

}  // namespace attacca
