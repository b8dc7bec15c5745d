// The shapes of values within a group, where ONNX Runtime knows less than Attacca.
#pragma once

#include "ort/graph.hpp"
#include "ort/model.hpp"
#include "ort/partition.hpp"
#include "ort/settings.hpp"

namespace attacca::ort {

// Writes the shapes of the floats that the group computes into the graph, and sizes to measure with
// for symbols that are sums or products of others. Where Attacca cannot tell, nothing changes.
// REQUIRES: the importer reads the group.
void find_shapes(GraphView& graph, const Group& group, const Settings& settings);

using Sizes = std::vector<std::pair<std::string, int64_t>>;

// Sizes to try a plan of the model with: `symbols` are the plan's.
Sizes typical_sizes(const GraphView& graph, const std::vector<std::string>& symbols,
                    const Model& model, const Settings& settings);

// The names in the settings' `dims` that no dimension of the graph has.
std::vector<std::string> unknown_dims(const GraphView& graph, const Settings& settings);

}  // namespace attacca::ort
