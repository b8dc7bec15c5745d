// Replacements in a text, made all at once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/syntax/syntax.hpp"

namespace attacca::ptx {

class Edits {
 public:
  explicit Edits(const Module& module) : module_(module) {}

  // The tokens of the span, not the blanks before them. Spans must not overlap.
  void replace(Span span, std::string text);
  void insert_after(uint32_t token, std::string text);
  bool covers(uint32_t token) const;

  // The whole text, edited.
  std::string apply() const;
  // The tokens of the span, edited. REQUIRES: no edit lies outside it.
  std::string apply(Span span) const;

 private:
  struct Edit {
    Span span;
    std::string text;
  };

  std::string apply(size_t begin, size_t end) const;
  size_t begin_of(const Edit& edit) const;
  size_t end_of(const Edit& edit) const;

  const Module& module_;
  std::vector<Edit> edits_;  // in the order of the text
};

}  // namespace attacca::ptx
