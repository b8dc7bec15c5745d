#include "ptx/syntax/cursor.hpp"

#include <charconv>

#include "fmt/format.h"

namespace attacca::ptx {
namespace {

std::string describe(const Token& token) {
  if (token.kind == TokenKind::End) return "the end of the text";
  constexpr size_t kLongest = 60;
  return fmt::format("'{}'", token.text().substr(0, kLongest));
}

}  // namespace

std::optional<uint64_t> to_integer(std::string_view text) {
  if (text.ends_with('U')) text.remove_suffix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    base = text[1] == 'x' || text[1] == 'X' ? 16 : text[1] == 'b' || text[1] == 'B' ? 2 : 8;
    text.remove_prefix(base == 8 ? 1 : 2);
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

tl::unexpected<Error> Cursor::unexpected(std::string_view wanted) const {
  return fail(fmt::format("expected {}, got {}", wanted, describe(peek())),
              source_.where(peek().text()), "give PTX as nvcc, NVRTC, clang or Triton print it");
}

Status Cursor::expect(char symbol, std::string_view why) {
  if (take_if(symbol)) return {};
  return unexpected(fmt::format("'{}' {}", symbol, why));
}

Result<std::string_view> Cursor::expect_word(std::string_view what) {
  if (peek().kind != TokenKind::Word) return unexpected(what);
  return take().text();
}

Result<uint64_t> Cursor::expect_integer(std::string_view what) {
  const auto value =
      peek().kind == TokenKind::Number ? to_integer(peek().text()) : std::optional<uint64_t>();
  if (!value) return unexpected(what);
  take();
  return *value;
}

Status Cursor::skip_to(std::string_view symbols, std::string_view what) {
  std::string open;  // the brackets to close, innermost last
  for (; !at_end(); take()) {
    if (peek().kind != TokenKind::Symbol) continue;
    const char c = peek().text()[0];
    if (open.empty() && symbols.find(c) != std::string_view::npos) return {};
    if (c == '(' || c == '[' || c == '{') {
      if (open.size() == kMaxDepth) return unexpected("fewer nested brackets");
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) return {};
      if (open.back() != c) return unexpected(fmt::format("'{}'", open.back()));
      open.pop_back();
    }
  }
  return unexpected(fmt::format("the end of {}", what));
}

}  // namespace attacca::ptx
