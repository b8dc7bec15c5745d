// The result of a folding pass: the new graph, and the ops that were recovered.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/graph.hpp"

namespace attacca::fold {

struct Applied {
  std::string rule;    // its name in the table
  std::string result;  // the folded expression, e.g. "silu(x + bias)"
};

struct FoldResult {
  ir::Graph graph;
  std::vector<Applied> applied;
};

}  // namespace attacca::fold
