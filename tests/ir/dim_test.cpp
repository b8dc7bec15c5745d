#include "ir/graph/dim.hpp"

#include "gtest/gtest.h"

namespace attacca::ir {
namespace {

const Dim M = Dim::symbol("M"), N = Dim::symbol("N");

TEST(Dim, PolynomialsAreCanonical) {
  EXPECT_EQ(to_string(M * 2 + N * M + 3), "2*M + M*N + 3");
  EXPECT_EQ((M + 1) * (M - 1), M * M - 1);
  EXPECT_EQ(M - M, Dim(0));
  EXPECT_FALSE(M == N);
}

TEST(Dim, DividesOnlyExactly) {
  EXPECT_EQ(divide(M * N * 6, M * 2), N * 3);
  EXPECT_EQ(divide(M * 2 + 4, 2), M + 2);
  EXPECT_FALSE(divide(M, 2));
  EXPECT_FALSE(divide(M, N));
  EXPECT_FALSE(divide(M, M + 1));
  EXPECT_EQ(divide((M * N - 1) * 64, (M * N - 1) * 16), 4);
  EXPECT_EQ(divide((M + N) * (M - N + 3), N * -1 + M + 3), M + N);
  EXPECT_EQ(divide(M * M - 1, M + 1), M - 1);
  EXPECT_FALSE(divide(M * M + 1, M + 1));
  EXPECT_FALSE(divide((M + N) * 2, M * 4 + N * 4));
  EXPECT_FALSE(divide(M + N, 0));
}

TEST(Dim, OverflowIsNeverEqual) {
  const Dim huge = Dim(INT64_MAX) * 2;
  EXPECT_TRUE(huge.overflowed());
  EXPECT_FALSE(huge == huge);
  EXPECT_FALSE((Dim(INT64_MAX) * M).evaluate({{"M", 2}}));
}

TEST(Dim, EvaluatesOrNamesWhatIsMissing) {
  EXPECT_EQ((M * N + 1).evaluate({{"M", 3}, {"N", 4}}), 13);
  EXPECT_EQ(M.evaluate({}).error().fix, "give it with --dim M=SIZE");
  EXPECT_FALSE((M - 5).evaluate({{"M", 3}}));
}

TEST(Dim, BroadcastsOneAndItself) {
  EXPECT_EQ(broadcast(M, Dim(1)), M);
  EXPECT_EQ(broadcast(Shape{4, 1, M}, Shape{3, M}), (Shape{4, 3, M}));
  EXPECT_FALSE(broadcast(M, Dim(4)));
  EXPECT_FALSE(broadcast(M, N));
}

}  // namespace
}  // namespace attacca::ir
