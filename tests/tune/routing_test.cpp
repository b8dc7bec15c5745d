// Rows divided among groups, as the tuner times them: every row belongs to a group, and by Zipf's
// law the largest groups have the shares that it names.
#include "tune/routing.hpp"

#include <algorithm>
#include <functional>

#include "gtest/gtest.h"

namespace attacca::tune {
namespace {

// The rows of each group, the most first.
std::vector<int32_t> counts(Routing routing, int64_t groups, int64_t rows) {
  const std::vector<int32_t> ends = group_ends(routing, groups, rows);
  EXPECT_EQ(static_cast<int64_t>(ends.size()), groups);
  EXPECT_EQ(ends.back(), rows);
  std::vector<int32_t> result;
  for (size_t i = 0; i < ends.size(); ++i) result.push_back(ends[i] - (i > 0 ? ends[i - 1] : 0));
  std::sort(result.begin(), result.end(), std::greater<>());
  EXPECT_GE(result.back(), 0);
  return result;
}

TEST(Routing, GivesEveryRowAGroup) {
  for (const Routing routing : {Routing::Alike, Routing::Zipf})
    for (const int64_t groups : {1, 2, 8, 256})
      for (const int64_t rows : {0, 1, 7, 256, 40000}) counts(routing, groups, rows);
}

TEST(Routing, AlikeHasGroupsOfAboutTheSameSize) {
  const std::vector<int32_t> rows = counts(Routing::Alike, 32, 32000);
  EXPECT_LT(rows.front(), 1150);  // 4.8 standard deviations
  EXPECT_GT(rows.back(), 850);
}

TEST(Routing, ZipfHasSharesOfOneOverThePlace) {
  // 1 + 1/2 + ... + 1/4 = 25/12.
  EXPECT_EQ(counts(Routing::Zipf, 4, 2500), (std::vector<int32_t>{1200, 600, 400, 300}));
  const std::vector<int32_t> rows = counts(Routing::Zipf, 256, 32768);
  for (const int place : {1, 2, 10, 100, 256})  // 6.1243: 1 + 1/2 + ... + 1/256
    EXPECT_NEAR(rows[static_cast<size_t>(place - 1)], 32768 / 6.1243 / place, 1.01) << place;
}

TEST(Routing, ZipfsLargestGroupIsNotTheFirst) {
  const std::vector<int32_t> ends = group_ends(Routing::Zipf, 256, 32768);
  EXPECT_LT(ends[0], 2000);
}

}  // namespace
}  // namespace attacca::tune
