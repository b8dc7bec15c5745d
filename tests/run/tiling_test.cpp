// How a region's domain is cut into tiles.
#include "run/cpu/region/tiling.hpp"

#include <algorithm>
#include <utility>

#include "gtest/gtest.h"

namespace attacca::run {
namespace {

TEST(Tiling, PointwiseTilesHaveLongRows) {
  const auto tile = [](int64_t rows, int64_t columns) {
    const TileExtents found = pointwise_tile(rows, columns);
    return std::pair(found.rows, found.columns);
  };
  EXPECT_EQ(tile(10, 100), std::pair(10L, 100L));
  EXPECT_EQ(tile(1000, 100), std::pair(327L, 100L));
  EXPECT_EQ(tile(4, 100'000), std::pair(1L, 32'768L));
}

TEST(Tiling, CountsTheMultiplicationsOfAllProducts) {
  std::vector<PreparedProduct> products(2);
  products[0].a.columns = 7;
  products[1].a.columns = 11;
  EXPECT_EQ(multiplications({2, 3, 5}, products), 30 * (7 + 11));
  EXPECT_EQ(multiplications({2, 3, 5}, {}), 0);
}

TEST(Tiling, ThreadsAreBusyIfASixteenthOfTheirTimeIsLeftAtMost) {
  EXPECT_TRUE(keeps_busy(16, 16));
  EXPECT_TRUE(keeps_busy(15, 16));
  EXPECT_FALSE(keeps_busy(14, 16));
  EXPECT_FALSE(keeps_busy(17, 16));
  EXPECT_TRUE(keeps_busy(241, 16));
}

TEST(Tiling, TilesOfOneThreadAreAsHighAsTheyMayBe) {
  EXPECT_EQ(tile_rows(1, 1, 1), kLeastTileRows);
  EXPECT_EQ(tile_rows(128, 4, 1), kTileRows);
  EXPECT_EQ(tile_rows(300, 1, 1), 100);
}

TEST(Tiling, TilesAreLowerForMoreThreads) {
  EXPECT_EQ(tile_rows(256, 1, 4), 32);    // two tiles a thread
  EXPECT_EQ(tile_rows(1000, 1, 4), 128);  // as many as without threads
  EXPECT_EQ(tile_rows(1024, 1, 7), 76);   // rows of 4
}

TEST(Tiling, TilesAreLowerIfThereIsOneTooMany) {
  EXPECT_EQ(tile_rows(1024, 3, 8), 128);  // 24 tiles
  EXPECT_EQ(tile_rows(1152, 3, 8), 116);  // 30 tiles instead of 27
}

TEST(Tiling, StripsHaveRowsOfOneGroup) {
  constexpr int64_t kNone = Groups::kNone;
  EXPECT_EQ(strips_of({{100, 100, 164}}, 200, 1, 1),
            (std::vector<Strip>{{0, 0, 100}, {2, 100, 164}, {kNone, 164, 200}}));
  EXPECT_EQ(strips_of({{}}, 40, 1, 1), (std::vector<Strip>{{kNone, 0, 40}}));
  EXPECT_TRUE(strips_of({{0, 0}}, 0, 1, 1).empty());
}

TEST(Tiling, StripsOfALargeGroupAreForAllThreads) {
  const std::vector<Strip> strips = strips_of({{200}}, 200, 1, 4);
  ASSERT_EQ(strips.size(), 7);
  for (size_t i = 0; i < strips.size(); ++i) {
    const auto row = static_cast<int64_t>(i) * 32;
    EXPECT_EQ(strips[i], (Strip{0, row, std::min<int64_t>(row + 32, 200)}));
  }
}

}  // namespace
}  // namespace attacca::run
