#include <algorithm>

#include "fmt/format.h"

#include "ptx/syntax/token.hpp"

namespace attacca::ptx {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool follows_in_name(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '$';
}
bool starts_name(char c) {
  return is_letter(c) || c == '_' || c == '$' || c == '%';
}

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), text_(source.text()) {}

  Result<std::vector<Token>> run() {
    if (text_.size() > kMaxTextBytes)
      return fail(fmt::format("the PTX is larger than {} MiB", kMaxTextBytes >> 20),
                  source_.where(0), "split it into several modules");
    tokens_.reserve(text_.size() / 2 + 1);  // enough for any PTX; unused pages take no memory
    for (;;) {
      ATTACCA_TRY_VOID(skip_trivia());
      start_ = at_;
      if (at_ == text_.size()) break;
      ATTACCA_TRY(const TokenKind kind, next());
      push(kind);
    }
    push(TokenKind::End);
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void push(TokenKind kind) {
    tokens_.push_back({text_.data() + start_, static_cast<uint32_t>(at_ - start_), kind});
  }

  Status skip_trivia() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '/' && peek(1) == '/') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        --at_;
      } else if (c == '/' && peek(1) == '*') {
        const size_t close = text_.find("*/", at_ + 2);
        if (close == std::string_view::npos)
          return fail("a comment does not end", source_.where(at_), "close it with */");
        at_ = close + 1;
      } else if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
        return {};
      }
    }
    return {};
  }

  // Moves past one token.
  Result<TokenKind> next() {
    const char c = text_[at_];
    if (starts_name(c) && (c != '%' || follows_in_name(peek(1)))) {
      skip_dotted_name();
      return TokenKind::Word;
    }
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      skip_number();
      return TokenKind::Number;
    }
    if (c == '.' && starts_name(peek(1))) {
      at_ += 2;
      skip_name();
      return TokenKind::Directive;
    }
    if (c == '"') return string();
    constexpr std::string_view kSymbols = "(){}[]<>,;:@!|+-*/%&^~=?";
    if (kSymbols.find(c) != std::string_view::npos) {
      ++at_;
      return TokenKind::Symbol;
    }
    return fail(fmt::format("PTX has no use for the byte 0x{:02x} here",
                            static_cast<unsigned>(static_cast<unsigned char>(c))),
                source_.where(at_), "give PTX as text");
  }

  // Names and their '::' parts, as in shared::cluster.
  void skip_name() {
    while (follows_in_name(peek(0)) ||
           (peek(0) == ':' && peek(1) == ':' && follows_in_name(peek(2))))
      at_ += peek(0) == ':' ? 2 : 1;
  }

  // An opcode with its modifiers, or a register with its component, is one word.
  void skip_dotted_name() {
    do {
      ++at_;
      skip_name();
    } while (peek(0) == '.' && follows_in_name(peek(1)));
  }

  void skip_number() {
    const bool has_exponent = peek(0) != '0' || is_digit(peek(1)) || peek(1) == '.';
    for (;; ++at_) {
      const char c = peek(0);
      const char sign = peek(1);
      if (has_exponent && (c == 'e' || c == 'E') && (sign == '+' || sign == '-'))
        ++at_;
      else if (!is_letter(c) && !is_digit(c) && c != '.')
        return;
    }
  }

  Result<TokenKind> string() {
    for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      if (text_[at_] == '\\' && peek(1) != '\0' && peek(1) != '\n') {
        ++at_;
      } else if (text_[at_] == '"') {
        ++at_;
        return TokenKind::String;
      }
    }
    return fail("a string does not end on its line", source_.where(start_), "close it with \"");
  }

  const Source& source_;
  std::string_view text_;
  size_t at_ = 0;
  size_t start_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::string Source::where(size_t offset) const {
  const std::string_view before = text().substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');  // npos + 1 == 0
  return fmt::format("{}:{}:{}", name_, line, before.size() - (newline + 1) + 1);
}

Result<std::vector<Token>> tokenize(const Source& source) {
  return Lexer(source).run();
}

}  // namespace attacca::ptx
