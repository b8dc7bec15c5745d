// Copies a graph with some of its values replaced.
#pragma once

#include <optional>

#include "ir/graph/graph.hpp"

namespace attacca::api {

// Copies node by node. `replace(into, node)` returns a Result<std::optional<ir::Value>>: the value
// in the node's place, or none to copy the node.
template <class F>
Result<ir::Graph> rewrite(const ir::Graph& graph, F replace) {
  ir::Graph into;
  into.name = graph.name;
  std::vector<ir::Value> copies(graph.size());
  for (uint32_t id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.nodes()[id];
    ATTACCA_TRY(const std::optional<ir::Value> replaced, replace(into, node));
    if (replaced) {
      copies[id] = *replaced;
      continue;
    }
    ATTACCA_TRY(copies[id], ir::copy_moved(into, node, copies));
    if (node.op != ir::Op::Input && !node.name.empty())
      ATTACCA_TRY_VOID(into.set_name(copies[id], node.name));
  }
  for (const ir::Output& output : graph.outputs())
    into.add_output(copies[output.value.id], output.name);
  return into;
}

}  // namespace attacca::api
