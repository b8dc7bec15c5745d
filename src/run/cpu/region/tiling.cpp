#include "run/cpu/region/tiling.hpp"

#include <algorithm>

#include "run/cpu/thread_pool.hpp"
#include "run/shared/extents.hpp"

namespace attacca::run {
namespace {

// Elements of a pointwise tile.
constexpr int64_t kTileElements = 32 * 1024;

}  // namespace

TileExtents pointwise_tile(int64_t rows, int64_t columns) {
  const int64_t wide = std::min(columns, kTileElements);
  return {std::clamp<int64_t>(kTileElements / wide, 1, rows), wide};
}

int64_t multiplications(const std::vector<int64_t>& domain,
                        std::span<const PreparedProduct> products) {
  int64_t count = 0;
  for (const PreparedProduct& each : products) count += count_of(domain) * each.a.columns;
  return count;
}

bool keeps_busy(int64_t tiles, int threads) {
  const int64_t slots = divide_up(tiles, threads) * threads;
  return (slots - tiles) * 16 <= slots;
}

int64_t tile_rows(int64_t rows, int64_t others, int threads) {
  constexpr int64_t kEven = 4;
  int64_t down = divide_up(rows, kTileRows);
  if (threads > 1) down = std::max(down, divide_up(2 * threads, others));
  const int64_t most = std::max(down, rows / kLeastTileRows);
  while (down < most && !keeps_busy(down * others, threads)) ++down;
  const int64_t tall = divide_up(divide_up(rows, down), kEven) * kEven;
  return std::clamp(tall, kLeastTileRows, kTileRows);
}

std::vector<Strip> strips_of(const Groups& groups, int64_t rows, int64_t across, int threads) {
  std::vector<Strip> strips;
  const auto cut = [&](int64_t group, int64_t begin, int64_t end) {
    if (begin == end) return;
    const int64_t share = divide_up((end - begin) * threads, rows);
    const int64_t tall = tile_rows(end - begin, across, static_cast<int>(share));
    for (int64_t row = begin; row < end; row += tall)
      strips.push_back({group, row, std::min(end, row + tall)});
  };
  for (size_t group = 0; group < groups.ends.size(); ++group)
    cut(static_cast<int64_t>(group), groups.begin(group), groups.ends[group]);
  cut(Groups::kNone, groups.ends.empty() ? 0 : groups.ends.back(), rows);
  return strips;
}

}  // namespace attacca::run
