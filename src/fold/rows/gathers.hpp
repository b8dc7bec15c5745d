// Rows of gathered rows become one gather, by an index of indices: gather(gather(x, i), j) becomes
// gather(x, gather(i, j)), for matrices x and lists i and j. Values do not change, but for an index
// of i outside of x, which is an error only where j names it.
#pragma once

#include "fold/result.hpp"

namespace attacca::fold {

FoldResult compose_gathers(const ir::Graph& graph);

}  // namespace attacca::fold
