// Runs the products of a region tile by tile: each tile's accumulators are finished by the epilogue
// and reduced while they are in cache.
#pragma once

#include <vector>

#include "run/cpu/epilogue_runner.hpp"
#include "run/cpu/products.hpp"
#include "run/cpu/region/tiled_reductions.hpp"

namespace attacca::run {

// What the tiles of a run share.
struct GemmTiles {
  const BoundEpilogue& epilogue;
  const std::vector<PreparedProduct>& products;
  const TiledReductions& reductions;
};

// REQUIRES: a domain with elements.
void run_gemm_tiles(const GemmTiles& tiles, int threads);
// Runs grouped products, whose tiles have rows of one group each. REQUIRES: a domain with elements.
void run_group_tiles(const GemmTiles& tiles, const Groups& groups, int threads);

}  // namespace attacca::run
