// Ops that are written twice become one: the same op of the same operands with the same attributes.
// Values do not change. Constants and a user's kernels stay apart.
#pragma once

#include "fold/result.hpp"

namespace attacca::fold {

FoldResult merge_duplicates(const ir::Graph& graph);

}  // namespace attacca::fold
