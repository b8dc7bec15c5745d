// Multiplies blocks by their scales in the device's memory, for kernels that do not read scales.
#pragma once

#include <memory>
#include <vector>

#include "launch/helpers/source_kernel.hpp"

namespace attacca::launch {

// One axis of x: strides in elements, and how many of them share a scale.
struct BlockAxis {
  int64_t extent = 1, stride = 0, scale_stride = 0, block = 1;
};
inline constexpr size_t kMostBlockAxes = 8;

class ScaleBlocks {
 public:
  static Result<ScaleBlocks> make(const std::shared_ptr<Toolbox>& toolbox,
                                  const std::vector<BlockAxis>& axes, ir::DType x, ir::DType scale);
  // `to`: a dense f32 tensor of these axes, the last one contiguous. All addresses are those of
  // first elements.
  Status launch(const void* x, const void* scales, void* to, gpu::StreamHandle stream) const;

 private:
  ScaleBlocks(SourceKernel kernel, std::vector<BlockAxis> axes)
      : kernel_(std::move(kernel)), axes_(std::move(axes)) {}

  SourceKernel kernel_;
  std::vector<BlockAxis> axes_;
};

}  // namespace attacca::launch
