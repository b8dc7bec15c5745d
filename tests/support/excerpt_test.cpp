#include "support/text/excerpt.hpp"

#include "gtest/gtest.h"

#include "support/error.hpp"

namespace attacca {
namespace {

TEST(Excerpt, LeavesOrdinaryMessagesAlone) {
  const std::string text = "expected ')', got 'x'\n  at: a file:1:2  with two  blanks";
  EXPECT_EQ(bounded(text), text);
  std::string many;
  for (int i = 0; i < 200; ++i) many += "a_known_op ";
  EXPECT_EQ(bounded(many), many);
}

TEST(Excerpt, LongWordsKeepBothEnds) {
  const std::string text = bounded("the name begin" + std::string(10000, 'x') + "end is taken");
  EXPECT_LT(text.size(), 350u);
  EXPECT_TRUE(text.starts_with("the name beginxxx"));
  EXPECT_TRUE(text.ends_with("xxxend is taken"));
  EXPECT_NE(text.find("xxx...xxx"), std::string::npos);
}

TEST(Excerpt, LongMessagesKeepBothEnds) {
  std::string line = "unexpected";
  for (int i = 0; i < 100000; ++i) line += " + x";
  const std::string text = bounded(line + " on line 7");
  EXPECT_EQ(text.size(), 2500u);
  EXPECT_TRUE(text.starts_with("unexpected + x"));
  EXPECT_TRUE(text.ends_with(" on line 7"));
}

TEST(Excerpt, CutsBetweenCharacters) {
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string word(shift, 'x');
    for (int i = 0; i < 1000; ++i) word += "\xC3\xA9";
    const std::string text = bounded(word);
    ASSERT_LE(text.size(), 300u);
    size_t halves = 0;
    for (size_t i = 0; i < text.size(); ++i)
      halves += (text[i] == '\xC3') != (i + 1 < text.size() && text[i + 1] == '\xA9');
    EXPECT_EQ(halves, 0u) << shift;
  }
}

TEST(Excerpt, BoundsEveryPartOfAnError) {
  const std::string word(1000000, 'x');
  EXPECT_LT(to_string(Error{word, word, word}).size(), 1000u);
}

}  // namespace
}  // namespace attacca
