// A tensor brought to the layout that a graph's input declares.
#pragma once

#include "ir/graph.hpp"
#include "ir/tensor.hpp"

namespace attacca::run {

// Row-major where the input declares no strides; itself where it lies so already. Throws
// std::bad_alloc.
Result<ir::Tensor> laid_out(const ir::Node& input, const ir::Tensor& tensor,
                            const ir::SymbolValues& symbols);

}  // namespace attacca::run
