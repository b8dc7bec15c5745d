// ONNX models of some nodes of a graph: what Attacca's importer reads, and what is measured.
#pragma once

#include <string>
#include <vector>

#include "attacca/attacca.hpp"
#include "ort/graph.hpp"

namespace attacca::ort {

// How the model has the constants: all of them; or the small ones alone, the others as inputs
// (Probe: and inputs whose rank is unknown as scalars); or, to compare models, all without those
// numbers that leave the time as it is.
enum class Constants : uint8_t { All, Small, Probe, Structure };

// Its names depend on the nodes and their order alone: values are v0, v1 ... in the order of
// `values`, symbols s0, s1 ... in that of `symbols`, node k of those given is nk. So two layers of
// equal structure give equal bytes with Constants::Structure.
struct Model {
  std::string bytes;
  std::vector<size_t> values;           // of the graph
  std::vector<std::string> symbols;     // the graph's names; empty: it has none
  std::vector<size_t> inputs, outputs;  // of the graph, in the model's order
};

// `nodes` in topological order. Errors: an input or output that is no tensor or, of inputs, has an
// unknown rank, at a node that reads or writes it, as the importer's errors; an attribute that
// cannot be written, at its node; constants that exceed protobuf's limit. Throws Ort::Exception.
// `more`: values of the nodes that are outputs, too.
Result<Model> model_of(const GraphView& graph, const std::vector<size_t>& nodes,
                       Constants constants, const std::vector<size_t>& more = {});

// The graph's name of the model's tensor "v12".
const std::string& name_in(const GraphView& graph, const Model& model, const std::string& tensor);

// What crosses the border of these nodes, constants left out, each once, in the nodes' order.
std::vector<size_t> inputs_of(const GraphView& graph, const std::vector<size_t>& nodes);
std::vector<size_t> outputs_of(const GraphView& graph, const std::vector<size_t>& nodes);

// The index that the importer's error names ("node n12 (MatMul), ..."); none: another error.
std::optional<size_t> node_of(const Status& status);

}  // namespace attacca::ort
