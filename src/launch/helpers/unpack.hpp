// Packed weights as numbers in the device's memory, for what reads no packed tensor.
#pragma once

#include <memory>

#include "ir/packed/packed.hpp"
#include "launch/helpers/source_kernel.hpp"

namespace attacca::launch {

// From a packed tensor, of this layout, to weights (N, K), row-major: values of `rounded` stored as
// `stored`, which holds them exactly.
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
