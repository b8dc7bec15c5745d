// Random graphs of the kinds that can fuse, and random inputs for them.
#pragma once

#include <cstdint>

#include "ir/interpret/interpreter.hpp"

namespace attacca::testing {

// One or two matmuls (plain, batched, transposed, s8) with a random tail: elementwise ops of the
// table, broadcast operands of every role, casts, comparisons, gates, slices, reductions, extra
// outputs. Equal seeds give equal graphs.
ir::Graph random_graph(uint64_t seed);

// Inputs of moderate size with some zeros, and, in one graph of eight, NaN and infinities.
ir::Bindings random_bindings(const ir::Graph& graph, uint64_t seed);

}  // namespace attacca::testing
