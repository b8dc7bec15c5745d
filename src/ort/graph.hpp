// A graph of ONNX Runtime's as plain values: what is needed to choose nodes and to write models.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ort/api.hpp"

namespace attacca::ort {

// An extent: a number, or a symbol. Extents of one symbol are equal. One that ONNX Runtime does not
// name is called by its value and axis, such as "add_3.0".
struct Extent {
  int64_t number = -1;
  std::string symbol = {};
};

struct GraphValue {
  std::string name;
  int32_t dtype = 0;  // ONNX's number of the element type; 0: no tensor
  // Absent where the rank is unknown. ONNX Runtime shows an unknown rank as rank 0, so that only a
  // constant can have rank 0.
  std::optional<std::vector<Extent>> shape;
  const OrtValue* constant = nullptr;  // of an initialiser that never changes
  size_t constant_bytes = 0;
  bool graph_output = false;
  std::optional<size_t> producer;  // a node
  std::vector<size_t> consumers;   // nodes
};

struct GraphNode {
  std::string name, op, domain;                        // domain "": ONNX's own
  int version = 1;                                     // the opset in which the op was last changed
  std::vector<std::optional<size_t>> inputs, outputs;  // values; none where one is left out
  std::vector<size_t> captured;  // values that the graphs which it holds read from around it
  std::vector<Ort::ConstOpAttr> attributes;
  bool nested = false;   // it holds a graph
  std::string provider;  // the execution provider that has it already
};

// Nodes stand in topological order. Valid as long as ONNX Runtime's graph is.
struct GraphView {
  std::vector<GraphValue> values;
  std::vector<GraphNode> nodes;
  std::map<std::string, int64_t> sizes;  // of symbols, to measure with
};

// Throws Ort::Exception.
GraphView view_of(Ort::ConstGraph graph);

// "MatMul", "com.microsoft.FusedMatMul"
std::string op_name(const GraphNode& node);

}  // namespace attacca::ort
