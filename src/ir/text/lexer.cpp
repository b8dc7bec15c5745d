#include "ir/text/lexer.hpp"

#include <algorithm>
#include <array>

#include "fmt/format.h"

#include "ir/text/rules.hpp"
#include "support/text/utf8.hpp"

namespace attacca::ir {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_word(char c) {
  return is_word_start(c) || is_digit(c);
}

// Longest first, so that the first match is the longest.
constexpr std::string_view kSymbols[] = {"...", "<=", ">=", "==", "!=", "(", ")", "{",
                                         "}",   "[",  "]",  ",",  ":",  ";", "=", "+",
                                         "-",   "*",  "/",  "@",  "<",  ">"};

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Lexer {
 public:
  explicit Lexer(const SourceText& source) : source_(source), text_(source.text) {}

  Result<std::vector<Token>> run() {
    ATTACCA_TRY_VOID(check_encoding());
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    for (;;) {
      skip_blanks();
      if (at_ == text_.size()) break;
      ATTACCA_TRY(const TokenKind kind, next());
      push(kind);
    }
    start_ = at_;
    push(TokenKind::End);
    return std::move(tokens_);
  }

 private:
  Status check_encoding() const {
    for (size_t i = 0; i < text_.size();) {
      const size_t length = utf8_length(text_.substr(i));
      if (length == 0)
        return source_.fail(i, "the text is not valid UTF-8 here", "save the file as UTF-8");
      if (text_[i] == '\0') return source_.fail(i, "the text holds a NUL byte", "give a text file");
      i += length;
    }
    return {};
  }

  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '\n') {
        starts_line_ = true;
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else {
        return;
      }
    }
  }

  void push(TokenKind kind) {
    tokens_.push_back({kind, text_.substr(start_, at_ - start_), start_, starts_line_});
    starts_line_ = false;
  }

  // Moves past one token.
  Result<TokenKind> next() {
    start_ = at_;
    const char c = text_[at_];
    if (is_word_start(c)) {
      while (is_word(peek(0))) ++at_;
      return TokenKind::Name;
    }
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
    if (c == '"') return quoted();
    for (const std::string_view symbol : kSymbols)
      if (text_.substr(at_).starts_with(symbol)) {
        at_ += symbol.size();
        return TokenKind::Symbol;
      }
    const std::string_view character = text_.substr(at_, utf8_length(text_.substr(at_)));
    return source_.fail(at_, fmt::format("unexpected character '{}'", character),
                        "names of other characters stand in double quotes");
  }

  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  Result<TokenKind> number() {
    while (is_digit(peek(0))) ++at_;
    if (peek(0) == '.' && peek(1) != '.') {
      ++at_;
      while (is_digit(peek(0))) ++at_;
    }
    const bool exponent = peek(0) == 'e' || peek(0) == 'E';
    const size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if (exponent && is_digit(peek(1 + sign))) {
      at_ += 1 + sign;
      while (is_digit(peek(0))) ++at_;
    }
    if (is_word(peek(0))) {
      while (is_word(peek(0))) ++at_;
      return source_.fail(start_,
                          fmt::format("malformed number '{}'", text_.substr(start_, at_ - start_)),
                          "write numbers as 2, 0.5 or 1e-5, and products as 2*x");
    }
    return TokenKind::Number;
  }

  Result<TokenKind> quoted() {
    for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        if (at_ - start_ == 2)
          return source_.fail(start_, "empty name", "write one or more characters");
        return TokenKind::Quoted;
      }
      if (c != '\\') continue;
      const char escaped = peek(1);
      if (escaped == 'x' && peek(2) == '0' && peek(3) == '0')
        return source_.fail(at_, "a quoted name holds a NUL byte",
                            "leave it out: files, C and Python end a name there");
      if (escaped == 'x' && hex_digit(peek(2)) >= 0 && hex_digit(peek(3)) >= 0)
        at_ += 3;
      else if (escaped == '"' || escaped == '\\')
        at_ += 1;
      else
        return source_.fail(at_, "unknown escape in a quoted name", "use \\\", \\\\ or \\xNN");
    }
    return source_.fail(start_, "a quoted name does not end on its line", "close it with \"");
  }

  const SourceText& source_;
  std::string_view text_;
  size_t at_ = 0;
  size_t start_ = 0;
  bool starts_line_ = true;
  std::vector<Token> tokens_;
};

bool is_plain_name(std::string_view name) {
  return !name.empty() && is_word_start(name[0]) &&
         std::all_of(name.begin(), name.end(), is_word) && !is_reserved(name);
}

}  // namespace

std::string SourceText::line_and_column(size_t offset) const {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const std::string_view rest =
      newline == std::string_view::npos ? before : before.substr(newline + 1);
  const auto column =
      1 + std::count_if(rest.begin(), rest.end(), [](char c) { return !is_continuation(c); });
  return fmt::format("{}:{}", line, column);
}

std::string SourceText::where(size_t offset) const {
  return fmt::format("{}:{}", name, line_and_column(offset));
}

tl::unexpected<Error> SourceText::fail(size_t offset, std::string what, std::string fix) const {
  return attacca::fail(std::move(what), where(offset), std::move(fix));
}

tl::unexpected<Error> SourceText::place(size_t offset, Error error) const {
  error.where = where(offset);
  return tl::make_unexpected(std::move(error));
}

Result<std::vector<Token>> tokenize(const SourceText& source) {
  return Lexer(source).run();
}

std::string describe(const Token& token) {
  if (token.kind == TokenKind::End) return "the end of the text";
  constexpr size_t kLongest = 40;
  if (token.text.size() <= kLongest) return fmt::format("'{}'", token.text);
  size_t cut = kLongest;
  while (is_continuation(token.text[cut])) --cut;
  return fmt::format("'{}...'", token.text.substr(0, cut));
}

std::string decode_name(const Token& token) {
  if (token.kind == TokenKind::Name) return std::string(token.text);
  std::string name;
  const std::string_view body = token.text.substr(1, token.text.size() - 2);
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      name += body[i];
    } else if (body[i + 1] == 'x') {
      name += static_cast<char>(hex_digit(body[i + 2]) * 16 + hex_digit(body[i + 3]));
      i += 3;
    } else {
      name += body[++i];
    }
  }
  return name;
}

std::string encode_name(std::string_view name) {
  if (is_plain_name(name)) return std::string(name);
  std::string text = "\"";
  for (size_t i = 0; i < name.size();) {
    const size_t length = utf8_length(name.substr(i));
    const auto byte = static_cast<unsigned char>(name[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      text += fmt::format("\\x{:02x}", byte);
      i += 1;
      continue;
    }
    if (byte == '"' || byte == '\\') text += '\\';
    text += name.substr(i, length);
    i += length;
  }
  return text + '"';
}

}  // namespace attacca::ir
