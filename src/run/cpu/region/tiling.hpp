// How the domain of a region is cut into tiles, which threads compute in parallel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "run/cpu/products.hpp"

namespace attacca::run {

// Rows of the lowest tile of products.
inline constexpr int64_t kLeastTileRows = 32;

// Rows and columns of the tiles of a pointwise region. REQUIRES: rows, columns > 0.
struct TileExtents {
  int64_t rows, columns;
};
TileExtents pointwise_tile(int64_t rows, int64_t columns);

// The multiplications of all products over a domain.
int64_t multiplications(const std::vector<int64_t>& domain,
                        std::span<const PreparedProduct> products);

// Whether at most a sixteenth of the threads' time passes without a tile, if all tiles take equally
// long.
bool keeps_busy(int64_t tiles, int threads);

// Rows of the tiles of products, from kLeastTileRows to kTileRows: about as many in each tile, and
// fewer where there are too few tiles for the threads, or one too many. `others`: tiles side by
// side.
int64_t tile_rows(int64_t rows, int64_t others, int threads);

// Rows of one tile, all of one group or of Groups::kNone.
struct Strip {
  int64_t group, row0, row1;
  friend bool operator==(const Strip&, const Strip&) = default;
};
// The rows of each group in strips, in the order of the groups, and those of no group last.
// `across`: tiles side by side.
std::vector<Strip> strips_of(const Groups& groups, int64_t rows, int64_t across, int threads);

}  // namespace attacca::run
