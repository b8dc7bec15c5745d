// Weights that a decode makes of constants, as constants.
#pragma once

#include "fold/result.hpp"

namespace attacca::fold {

// For devices without kernels that read codes: there each run would decode the weights. Their
// memory is that of the weights.
FoldResult decode_constants(const ir::Graph& graph);

}  // namespace attacca::fold
