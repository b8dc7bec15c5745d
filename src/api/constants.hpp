// Turns inputs into constants, and constants into inputs.
#pragma once

#include <string>
#include <vector>

#include "fuse/joining/columns.hpp"
#include "ir/graph/graph.hpp"

namespace attacca::api {

struct Constant {
  std::string input;  // its name in the graph where it is an input
  std::string label;  // its name in the graph where it is a constant; empty: none
  ir::Tensor tensor;
};

// The graph with these inputs replaced by constants. Errors: no such input, one named twice,
// another dtype or shape, an input of symbolic shape.
Result<ir::Graph> with_constants(const ir::Graph& graph, const std::vector<Constant>& constants);

// The reverse: tensor constants of more than `most` elements, made dense, become inputs.
struct Lifted {
  ir::Graph graph;
  std::vector<Constant> constants;
};
Result<Lifted> lift_constants(const ir::Graph& graph, int64_t most);

// The graph with constants in the memory that they were moved to, by their addresses.
Result<ir::Graph> with_moved(ir::Graph graph, const std::vector<fuse::MovedConstant>& moved);

}  // namespace attacca::api
