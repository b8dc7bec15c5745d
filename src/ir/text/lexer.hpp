// The text form's tokens, and the places that errors point at.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.hpp"

namespace attacca::ir {

struct SourceText {
  std::string_view text;
  std::string_view name;

  // "NAME:LINE:COLUMN" of a byte offset; columns count characters, from 1.
  std::string where(size_t offset) const;
  // "LINE:COLUMN", for messages that point at a second place.
  std::string line_and_column(size_t offset) const;
  tl::unexpected<Error> fail(size_t offset, std::string what, std::string fix = {}) const;
  // An error of a called function, with its place set to the offset.
  tl::unexpected<Error> place(size_t offset, Error error) const;
};

enum class TokenKind : unsigned char { Name, Quoted, Number, Symbol, End };

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;     // as written, quotes included
  size_t offset = 0;         // of its first byte
  bool starts_line = false;  // first token of its line

  bool is(std::string_view symbol) const { return kind == TokenKind::Symbol && text == symbol; }
  bool is_word(std::string_view word) const { return kind == TokenKind::Name && text == word; }
};

// All tokens, the last one an End token. Errors: NUL bytes, invalid UTF-8, malformed numbers and
// quoted names, characters outside of the grammar.
Result<std::vector<Token>> tokenize(const SourceText& source);

// A token's name in messages: "'+'", "the end of the text".
std::string describe(const Token& token);

// The name that a Name or Quoted token stands for. REQUIRES: the token is of tokenize().
std::string decode_name(const Token& token);
// A name as the text form writes it: quoted where it is no plain word or is reserved.
std::string encode_name(std::string_view name);

}  // namespace attacca::ir
