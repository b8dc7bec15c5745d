// The order of a graph's nodes.
#pragma once

#include <vector>

#include "onnx/onnx.pb.h"

namespace attacca::import {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// Each node behind those whose outputs it reads, else as they stand. ONNX wants files so, but ONNX
// Runtime reads any order and its own tools write others. What a cycle needs comes last.
std::vector<const onnx::NodeProto*> in_order(const Nodes& nodes);

}  // namespace attacca::import
