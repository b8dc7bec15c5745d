// The two graphs of an If, of which one is computed.
#pragma once

#include <functional>
#include <string>

#include "onnx/onnx.pb.h"
#include "support/error.hpp"

namespace attacca::import {

bool is_if(const onnx::NodeProto& node);

// The graph that an If computes for its condition. Errors: it has none, or the graph has inputs.
Result<const onnx::GraphProto*> branch_of(const onnx::NodeProto& node, bool condition);

// Visits the nodes of the graphs that a node has as attributes, and those of their nodes' graphs.
void for_each_inner_node(const onnx::NodeProto& node,
                         const std::function<void(const onnx::NodeProto&)>& visit);
void for_each_inner_node(onnx::NodeProto& node, const std::function<void(onnx::NodeProto&)>& visit);

// Visits the names that a node reads: its inputs, and all that nodes and outputs of its graphs
// read.
void for_each_read_name(const onnx::NodeProto& node,
                        const std::function<void(const std::string&)>& visit);

}  // namespace attacca::import
