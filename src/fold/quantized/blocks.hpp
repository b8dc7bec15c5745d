// Numbers times scales of blocks, written with reshapes, become scale_blocks:
//
//   reshape(reshape(cast(q, f32), [M, K/128, 128]) * s, [M, K])        s: [M, K/128, 1]
//   cast(q, f32) * reshape(broadcast(s, [M, K/128, 128]), [M, K])
//
// with blocks along any of the axes. Values do not change, bit for bit.
#pragma once

#include "fold/result.hpp"

namespace attacca::fold {

FoldResult recover_blocks(const ir::Graph& graph);

}  // namespace attacca::fold
