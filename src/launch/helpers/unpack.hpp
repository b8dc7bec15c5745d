// Packed weights as numbers in the device's memory, for what reads no packed tensor.
#pragma once

#include <memory>

#include "ir/packed/packed.hpp"
#include "launch/runnable.hpp"

namespace attacca::launch {

// From a packed tensor, of this layout, to weights (N, K), row-major: values of `rounded` stored as
// `stored`, which holds them exactly. Pointers: the packed tensor's, the weights'.
Result<std::unique_ptr<Runnable>> make_unpack(const std::shared_ptr<Toolbox>& toolbox,
                                              const ir::PackedLayout& layout, ir::DType rounded,
                                              ir::DType stored);

}  // namespace attacca::launch
