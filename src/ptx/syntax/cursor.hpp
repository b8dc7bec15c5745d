// The operations of all parts of the parser on tokens: look at, take, expect.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

class Cursor {
 public:
  Cursor(const Source& source, const std::vector<Token>& tokens)
      : source_(source), tokens_(tokens) {}

  const Token& peek(uint32_t ahead = 0) const {
    return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead] : tokens_.back();
  }
  bool at_end() const { return peek().kind == TokenKind::End; }
  uint32_t position() const { return at_; }
  uint32_t left() const { return static_cast<uint32_t>(tokens_.size()) - at_; }
  // Stays at the End token.
  const Token& take() {
    const Token& token = tokens_[at_];
    if (!at_end()) ++at_;
    return token;
  }
  bool take_if(char symbol) {
    if (!peek().is(symbol)) return false;
    take();
    return true;
  }
  Span since(uint32_t begin) const { return {begin, at_}; }

  Status expect(char symbol, std::string_view why);
  Result<std::string_view> expect_word(std::string_view what);
  Result<uint64_t> expect_integer(std::string_view what);
  tl::unexpected<Error> unexpected(std::string_view wanted) const;

  // Moves to the first of these symbols outside brackets, or to where a bracket closes that was
  // not opened here. Fails at the end of the text.
  Status skip_to(std::string_view symbols, std::string_view what);

 private:
  const Source& source_;
  const std::vector<Token>& tokens_;
  uint32_t at_ = 0;
};

// 12, 0x1F, 017, 0b11, 12U; nullopt for anything else or what does not fit.
std::optional<uint64_t> to_integer(std::string_view text);

}  // namespace attacca::ptx
