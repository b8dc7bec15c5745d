// Random graphs of the kinds that can fuse, and random inputs for them.
#pragma once

#include <cstdint>

#include "ir/interpret/interpreter.hpp"

namespace attacca::testing {

// One or two matmuls (plain, batched, transposed, s8) with a random tail: elementwise ops of the
// table, broadcast operands of every role, casts, comparisons, gates, slices, reductions, extra
// outputs. Equal seeds give equal graphs.
ir::Graph random_graph(uint64_t seed);

// Several products of one input by constants, with and without biases, scales and activations, and
// what reads them: each other's products, in heads too, reductions, elementwise ops, outputs.
ir::Graph random_projections(uint64_t seed);

// Inputs of moderate size with some zeros, and, in one graph of eight, NaN and infinities.
ir::Bindings random_bindings(const ir::Graph& graph, uint64_t seed);

}  // namespace attacca::testing
