// Packed weights as numbers in the device's memory, for what reads no packed tensor.
#pragma once

#include <memory>

#include "ir/packed/packed.hpp"
#include "launch/toolbox.hpp"

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
  Unpack(std::shared_ptr<Toolbox> toolbox, gpu::Module module, gpu::Function function,
         const ir::PackedLayout& layout)
      : toolbox_(std::move(toolbox)),
        module_(std::move(module)),
        function_(function),
        layout_(layout) {}

  std::shared_ptr<Toolbox> toolbox_;
  gpu::Module module_;
  gpu::Function function_;
  ir::PackedLayout layout_;
};

}  // namespace attacca::launch
