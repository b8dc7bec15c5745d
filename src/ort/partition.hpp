// Cuts the nodes that Attacca may take into groups, each of which can become one node.
#pragma once

#include <cstdint>
#include <vector>

#include "ort/graph.hpp"

namespace attacca::ort {

using Group = std::vector<size_t>;  // nodes in topological order

// Connected nodes among those taken, or such that read one value, in groups between which no cycle
// arises when each becomes one node. `taken`: by node.
std::vector<Group> groups_of(const GraphView& graph, const std::vector<bool>& taken);

// Each product of the group with the elementwise nodes that follow it, as groups that can become
// nodes side by side. A node is in one of them at most.
std::vector<Group> products_of(const GraphView& graph, const Group& group);

// Whether the groups, each as one node, leave the graph without a cycle. `owner`: by node, the
// group, or -1.
bool acyclic(const GraphView& graph, const std::vector<int64_t>& owner);

// Whether ONNX Runtime is to compute the node although Attacca reads it.
bool is_left(const GraphNode& node);

// Whether one of the nodes is a matrix product.
bool has_product(const GraphView& graph, const Group& group);

}  // namespace attacca::ort
