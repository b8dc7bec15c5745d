// Makes a failing graph small.
#pragma once

#include <functional>

#include "ir/graph/graph.hpp"

namespace attacca::testing {

// The smallest graph found by dropping outputs, replacing nodes by their operands and inputs by
// scalars, for which `fails` still holds. REQUIRES: fails(graph).
ir::Graph shrink(ir::Graph graph, const std::function<bool(const ir::Graph&)>& fails);

}  // namespace attacca::testing
