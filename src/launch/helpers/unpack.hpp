// Unpacks weights in the device's memory, for kernels that do not read packed tensors.
#pragma once

#include <memory>

#include "ir/packed/packed.hpp"
#include "launch/helpers/source_kernel.hpp"

namespace attacca::launch {

// Converts a packed tensor of this layout to row-major weights (N, K). They are rounded to
// `rounded` and stored as `stored`, which holds them exactly.
class Unpack {
 public:
  static Result<Unpack> make(const std::shared_ptr<Toolbox>& toolbox,
                             const ir::PackedLayout& layout, ir::DType rounded, ir::DType stored);
  // `to`: the weights.
  Status launch(const void* packed, void* to, gpu::StreamHandle stream) const;

 private:
  Unpack(SourceKernel kernel, const ir::PackedLayout& layout)
      : kernel_(std::move(kernel)), layout_(layout) {}

  SourceKernel kernel_;
  ir::PackedLayout layout_;
};

}  // namespace attacca::launch
