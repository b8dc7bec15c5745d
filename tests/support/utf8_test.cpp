#include "support/text/utf8.hpp"

#include <string>

#include "gtest/gtest.h"

namespace attacca {
namespace {

// A number in so many bytes, as UTF-8 writes it, whether or not fewer would do.
std::string in_bytes(uint32_t number, int bytes) {
  if (bytes == 1) return {static_cast<char>(number)};
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) {
    const uint32_t bits = number >> 6 * i;
    const uint32_t mark = i == bytes - 1 ? 0xF00u >> bytes & 0xFF : 0x80;
    text += static_cast<char>(mark | (i == bytes - 1 ? bits : bits & 0x3F));
  }
  return text;
}

TEST(Utf8, EveryNumberInEveryLength) {
  constexpr uint32_t kEnds[] = {0, 0x80, 0x800, 0x10000, 0x200000};  // of 1 to 4 bytes
  for (int bytes = 1; bytes <= 4; ++bytes)
    for (uint32_t number = 0; number < kEnds[bytes]; ++number) {
      const bool surrogate = number >= 0xD800 && number <= 0xDFFF;
      const bool valid = number >= kEnds[bytes - 1] && !surrogate && number <= 0x10FFFF;
      ASSERT_EQ(utf8_length(in_bytes(number, bytes)), valid ? bytes : 0)
          << number << " in " << bytes << " bytes";
    }
}

TEST(Utf8, OnlyTheFirstCharacterCounts) {
  for (const std::string rest : {"a", "\xC3\xA9", "\x80", "\xFF"}) {
    EXPECT_EQ(utf8_length("a" + rest), 1u);
    EXPECT_EQ(utf8_length("\xC3\xA9" + rest), 2u);
    EXPECT_EQ(utf8_length("\xF0\x9F\x98\x80" + rest), 4u);
  }
  EXPECT_EQ(utf8_length(""), 1u);
}

TEST(Utf8, WhatIsCutOrInterruptedIsNone) {
  for (const std::string whole : {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"})
    for (size_t cut = 1; cut < whole.size(); ++cut) {
      EXPECT_EQ(utf8_length(whole.substr(0, cut)), 0u);
      for (const char next : {'a', '\0', '\x7F', '\xC0', '\xFF'})
        EXPECT_EQ(utf8_length(whole.substr(0, cut) + next + whole.substr(cut + 1)), 0u);
    }
}

TEST(Utf8, BytesThatBeginNoCharacter) {
  for (int byte = 0; byte < 256; ++byte) {
    const bool continues = byte >= 0x80 && byte <= 0xBF;
    EXPECT_EQ(is_continuation(static_cast<char>(byte)), continues) << byte;
    const std::string text = static_cast<char>(byte) + std::string(3, '\x90');
    if (continues || byte >= 0xF5) {
      EXPECT_EQ(utf8_length(text), 0u) << byte;
    }
  }
}

}  // namespace
}  // namespace attacca
