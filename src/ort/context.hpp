// Regions in a model that ONNX Runtime saves (ep.context_enable): nodes EPContext, each of which
// holds the ONNX model of its region. Loading them needs no choice and no measurement.
#pragma once

#include <string>
#include <vector>

#include "ort/api.hpp"
#include "ort/choose.hpp"

namespace attacca::ort {

// A node that takes the place of a fused node. Throws Ort::Exception.
Ort::Node context_node(const std::string& name, const Region& region, const std::string& model);

// The regions of Attacca's nodes in the graph, compiled. Errors: one that holds no model that
// Attacca can compile, or one with other inputs and outputs. Throws Ort::Exception.
Result<std::vector<Claim>> saved_regions(const GraphView& graph, const Settings& settings);

}  // namespace attacca::ort
