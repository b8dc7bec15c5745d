// Blocks times their scales as numbers in the device's memory, for what reads no scales.
#pragma once

#include <memory>
#include <vector>

#include "launch/runnable.hpp"
#include "launch/toolbox.hpp"

namespace attacca::launch {

// One axis of x: strides in elements, and how many of them share a scale.
struct BlockAxis {
  int64_t extent = 1, stride = 0, scale_stride = 0, block = 1;
};
inline constexpr size_t kMostBlockAxes = 8;

// To a dense f32 tensor of these axes, the last one contiguous. Pointers: x's, the scales', the
// result's.
Result<std::unique_ptr<Runnable>> make_scale_blocks(const std::shared_ptr<Toolbox>& toolbox,
                                                    const std::vector<BlockAxis>& axes, ir::DType x,
                                                    ir::DType scale);

}  // namespace attacca::launch
