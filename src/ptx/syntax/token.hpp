// PTX text and its tokens. Blanks and comments belong to no token: they are what lies between two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.hpp"

namespace attacca::ptx {

struct Token;

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A text and the name that errors call it by. Copies share the text, so views into it stay valid.
class Source {
 public:
  Source(std::string text, std::string name)
      : text_(std::make_shared<const std::string>(std::move(text))), name_(std::move(name)) {}

  std::string_view text() const { return *text_; }
  // "NAME:LINE:COLUMN", both from 1, of a byte offset.
  std::string where(size_t offset) const;
  // The same of a view into this text. REQUIRES: part.data() points into text().
  std::string where(std::string_view part) const { return where(part.data() - text_->data()); }
  // Where a token starts and ends.
  size_t begin_of(const Token& token) const;
  size_t end_of(const Token& token) const;

 private:
  std::shared_ptr<const std::string> text_;
  std::string name_;
};

enum class TokenKind : unsigned char {
  Word,       // %r1, %tid.x, $L__BB0_1, mov.b32, cp.async.bulk.shared::cluster.global, sm_90a
  Directive,  // .reg, .b32, .loc
  Number,     // 12, 0x1F, 9.0, 0f3F800000
  String,     // "nounroll", quotes included
  Symbol,     // one character
  End
};

// Small: a file has hundreds of thousands.
struct Token {
  const char* data = nullptr;  // within the source's text
  uint32_t size = 0;
  TokenKind kind = TokenKind::End;

  std::string_view text() const { return {data, size}; }
  bool is(char symbol) const { return kind == TokenKind::Symbol && *data == symbol; }
  bool is_directive(std::string_view name) const {
    return kind == TokenKind::Directive && text() == name;
  }
};

inline size_t Source::begin_of(const Token& token) const {
  return static_cast<size_t>(token.data - text_->data());
}
inline size_t Source::end_of(const Token& token) const {
  return begin_of(token) + token.size;
}

constexpr size_t kMaxTextBytes = size_t{256} << 20;

// All tokens, an End token last. They point into the source's text.
Result<std::vector<Token>> tokenize(const Source& source);
Result<std::vector<Token>> tokenize(Source&&) = delete;

}  // namespace attacca::ptx
