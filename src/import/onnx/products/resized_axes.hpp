// The axes that Resize and Upsample change, from their scales or sizes.
#pragma once

#include <vector>

#include "import/onnx/ops.hpp"

namespace attacca::import {

constexpr int64_t kMostResized = 1 << 16;  // elements of a resized axis

// An axis whose extent `from` becomes `to`.
struct ResizedAxis {
  size_t axis;
  ir::Dim from, to;
  float scale;
};

// Those whose extent or scale changes. Errors: scales and sizes that are not known, do not fit the
// axes or are too large.
Result<std::vector<ResizedAxis>> resized_axes(Node& node, const ir::Shape& shape);

// By which whole number, up to 64, an extent becomes a size; 0 if by none.
int64_t whole_factor(const ir::Dim& size, const ir::Dim& extent);

Error unknown_extent(const ResizedAxis& by);

}  // namespace attacca::import
