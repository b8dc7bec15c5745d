// The order in which blocks take the tiles of a matrix. A group consists of `group` neighbouring
// lines of tiles; blocks take a group's tiles across its lines, so that those that run at the same
// time share rows of A and columns of B in L2. CUTLASS calls this a swizzle of the tiles.
#pragma once

#include <cstdint>

#include "common/device.cuh"

struct TileOrder {
  int32_t tiles_m, tiles_n;
  int32_t group;    // lines of tiles in a group
  int32_t along_n;  // 1: lines are columns of tiles, and blocks run along n; 0: rows, and along m
};

#ifdef ATTACCA_DEVICE_CODE

struct TileIndex {
  int m, n;
};

__device__ __forceinline__ TileIndex tile_at(const TileOrder& order, int number) {
  const int lines = order.along_n ? order.tiles_n : order.tiles_m;
  const int length = order.along_n ? order.tiles_m : order.tiles_n;
  const int first = number / (order.group * length) * order.group;
  const int width = min(order.group, lines - first);
  const int within = number % (order.group * length);
  const int line = first + within % width, step = within / width;
  return order.along_n ? TileIndex{step, line} : TileIndex{line, step};
}

#endif  // ATTACCA_DEVICE_CODE
