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

struct Token {
  TokenKind kind = TokenKind::End;
  bool starts_line = false;
  uint32_t begin = 0;  // byte offsets into the text
  uint32_t end = 0;
  std::string_view text;

  bool is(char symbol) const { return kind == TokenKind::Symbol && text[0] == symbol; }
  bool is_directive(std::string_view name) const {
    return kind == TokenKind::Directive && text == name;
  }
};

constexpr size_t kMaxTextBytes = size_t{256} << 20;

// All tokens, an End token last. They point into the source's text.
Result<std::vector<Token>> tokenize(const Source& source);
Result<std::vector<Token>> tokenize(Source&&) = delete;

}  // namespace attacca::ptx
