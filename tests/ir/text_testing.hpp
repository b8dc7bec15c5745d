// Helpers of the text form's tests.
#pragma once

#include <string>
#include <string_view>

#include "gtest/gtest.h"

#include "ir/graph/graph.hpp"
#include "ir/text/text.hpp"

namespace attacca::ir {

// A graph of the text, or a failed test and an empty graph.
inline Graph parsed(std::string_view text) {
  auto graph = parse_graph(text);
  if (graph) return *std::move(graph);
  ADD_FAILURE() << to_string(graph.error()) << "\n" << text;
  return {};
}

inline std::string bytes_of(const Tensor& tensor) {
  const auto dense = tensor.contiguous();
  return std::string(reinterpret_cast<const char*>(dense->data()),
                     static_cast<size_t>(dense->bytes()));
}

inline bool same_constant(const Node& a, const Node& b) {
  if (a.literal.has_value() != b.literal.has_value()) return false;
  if (a.literal)
    return std::string(reinterpret_cast<const char*>(&a.literal->value), sizeof(double)) ==
           std::string(reinterpret_cast<const char*>(&b.literal->value), sizeof(double));
  return a.tensor->shape() == b.tensor->shape() && bytes_of(*a.tensor) == bytes_of(*b.tensor);
}

// Where two graphs differ, or empty: nodes in the same order with the same operands, attributes,
// types, numbers and names, but for the names of nodes that have none in `before`.
inline std::string difference(const Graph& before, const Graph& after) {
  if (before.name != after.name) return "name";
  if (before.size() != after.size()) return "size";
  for (uint32_t id = 0; id < before.size(); ++id) {
    const Node &a = before.nodes()[id], &b = after.nodes()[id];
    const std::string where = " of node " + std::to_string(id);
    if (a.op != b.op) return "op" + where;
    if (a.operands != b.operands) return "operands" + where;
    if (!(a.attrs == b.attrs)) return "attributes" + where;
    if (!(a.type == b.type)) return "type" + where;
    if (!a.name.empty() && a.name != b.name) return "name" + where;
    if (a.op == Op::Constant && !same_constant(a, b)) return "constant" + where;
  }
  if (before.inputs() != after.inputs()) return "inputs";
  if (before.outputs().size() != after.outputs().size()) return "outputs";
  for (size_t i = 0; i < before.outputs().size(); ++i)
    if (before.outputs()[i].value != after.outputs()[i].value ||
        before.outputs()[i].name != after.outputs()[i].name)
      return "output " + std::to_string(i);
  return {};
}

// Whether the outputs of both are the same computation of the same inputs, whatever the order and
// names of the nodes, and both have equally many nodes.
class Equivalence {
 public:
  Equivalence(const Graph& a, const Graph& b) : a_(a), b_(b) {}

  bool holds() {
    bool same = a_.size() == b_.size() && a_.inputs().size() == b_.inputs().size() &&
                a_.outputs().size() == b_.outputs().size();
    for (size_t i = 0; same && i < a_.inputs().size(); ++i)
      same = match(a_.inputs()[i], b_.inputs()[i]);
    for (size_t i = 0; same && i < a_.outputs().size(); ++i)
      same = a_.outputs()[i].name == b_.outputs()[i].name &&
             match(a_.outputs()[i].value, b_.outputs()[i].value);
    return same;
  }

 private:
  bool match(Value va, Value vb) {
    const auto [slot, fresh] = there_.emplace(va, vb);
    if (!fresh) return slot->second == vb;
    if (!back_.emplace(vb, va).second) return false;
    const Node &a = a_[va], &b = b_[vb];
    bool same = a.op == b.op && a.attrs == b.attrs && a.type == b.type &&
                a.operands.size() == b.operands.size();
    if (same && a.op == Op::Constant) same = same_constant(a, b);
    if (same && a.op == Op::Input) same = a.name == b.name;
    for (size_t i = 0; same && i < a.operands.size(); ++i)
      same = match(a.operands[i], b.operands[i]);
    return same;
  }

  const Graph &a_, &b_;
  std::map<Value, Value> there_, back_;
};
inline bool equivalent(const Graph& a, const Graph& b) {
  return Equivalence(a, b).holds();
}

}  // namespace attacca::ir
