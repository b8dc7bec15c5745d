// The order in which blocks take the tiles of a matrix: those that run at the same time are
// neighbours, `group` lines of tiles, one after the other across them, so that they share what they
// read.
#pragma once

#include <cstdint>

#include "common/device.cuh"

struct TileOrder {
  int32_t tiles_m, tiles_n;
  int32_t group;    // tiles along the raster that share what they read of the other factor
  int32_t along_n;  // blocks run along n within a group of columns, else along m
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
