// Recovers activations and gates from their decomposed forms, by equality saturation with the rules
// of fold/rules.def.
#pragma once

#include <string>
#include <string_view>

#include "fold/result.hpp"

namespace attacca::fold {

// The graph with cheaper equal expressions. It cannot fail: an expression that does not fold is
// kept. Outputs, inputs, their names and every type are kept; dead nodes are removed.
FoldResult fold(const ir::Graph& graph);

// Why the first output of `graph` did not fold to `op`: the nearest rule and the place where its
// match failed, "wanted x = a, got b, at operand 1 of mul". An error if no rule yields `op`.
Result<std::string> why_not(const ir::Graph& graph, std::string_view op);

}  // namespace attacca::fold
