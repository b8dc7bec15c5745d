#include "support/text/excerpt.hpp"

#include <algorithm>
#include <string_view>

#include "support/text/utf8.hpp"

namespace attacca {
namespace {

constexpr size_t kLongestWord = 300;
constexpr size_t kLongestMessage = 2500;

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// The beginning and the end of a text, `size` bytes at most.
std::string both_ends(std::string_view text, size_t size) {
  constexpr std::string_view kGap = "...";
  size_t head = (size - kGap.size()) * 3 / 4;
  size_t tail = text.size() - (size - kGap.size() - head);
  while (head > 0 && is_continuation(text[head])) --head;
  while (tail < text.size() && is_continuation(text[tail])) ++tail;
  return std::string(text.substr(0, head)).append(kGap).append(text.substr(tail));
}

}  // namespace

std::string bounded(std::string message) {
  if (message.size() <= kLongestWord) return message;
  std::string result;
  const std::string_view text = message;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && is_blank(text[end]) == is_blank(text[i])) ++end;
    const std::string_view word = text.substr(i, end - i);
    result += word.size() > kLongestWord ? both_ends(word, kLongestWord) : word;
    i = end;
  }
  return result.size() > kLongestMessage ? both_ends(result, kLongestMessage) : result;
}

}  // namespace attacca
