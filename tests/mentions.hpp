// What a sentence for users says, without its wording.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "gtest/gtest.h"

namespace attacca {

// Whether `text` has `part` where no word or number continues on either side.
inline bool has_words(std::string_view text, std::string_view part) {
  const auto continues = [&](size_t at, char inside) {
    const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    return at < text.size() && is_word(text[at]) && is_word(inside);
  };
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1))
    if (!continues(at - 1, part.front()) && !continues(at + part.size(), part.back())) return true;
  return false;
}

// Each of the parts, "B; along n; 512", stands in the text as whole words, in any order.
inline ::testing::AssertionResult mentions(std::string_view text, std::string_view parts) {
  for (size_t begin = 0; begin < parts.size();) {
    const size_t end = std::min(parts.find("; ", begin), parts.size());
    const std::string_view part = parts.substr(begin, end - begin);
    if (!has_words(text, part))
      return ::testing::AssertionFailure()
             << '"' << text << "\" does not mention \"" << part << '"';
    begin = end + 2;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace attacca
