#include "differential/shrink.hpp"

#include <optional>

namespace attacca::testing {
namespace {

using ir::Graph;
using ir::Value;

// One edit: a node replaced by an earlier value, or an output dropped.
struct Edit {
  std::optional<Value> from, to;       // `from` reads as `to`, an earlier value
  std::optional<size_t> output;        // an output to drop
  std::vector<bool> dropped_inputs{};  // by node
};

// The edited copy, or nullopt if its types are invalid.
std::optional<Graph> copy(const Graph& graph, const Edit& edit) {
  Graph result;
  std::vector<Value> moved(graph.size());
  for (uint32_t id = 0; id < graph.size(); ++id) {
    if (!edit.dropped_inputs.empty() && edit.dropped_inputs[id]) continue;
    if (edit.from && id == edit.from->id) {
      moved[id] = moved[edit.to->id];
      continue;
    }
    std::vector<Value> operands;
    for (const Value operand : graph.nodes()[id].operands) operands.push_back(moved[operand.id]);
    const auto value = ir::copy_node(result, graph.nodes()[id], std::move(operands));
    if (!value) return std::nullopt;
    moved[id] = *value;
  }
  for (size_t i = 0; i < graph.outputs().size(); ++i)
    if (i != edit.output)
      result.add_output(moved[graph.outputs()[i].value.id], graph.outputs()[i].name);
  return result;
}

Graph without_unread_inputs(const Graph& graph) {
  Edit edit{.from = {}, .to = {}, .output = {}, .dropped_inputs = std::vector<bool>(graph.size())};
  const auto readers = ir::users(graph);
  for (const Value input : graph.inputs())
    edit.dropped_inputs[input.id] = readers[input.id].empty();
  for (const ir::Output& output : graph.outputs()) edit.dropped_inputs[output.value.id] = false;
  return *copy(graph, edit);
}

std::optional<Graph> smaller(const Graph& graph, const std::function<bool(const Graph&)>& fails) {
  const auto try_graph = [&](const Graph& candidate) -> std::optional<Graph> {
    Graph cleaned = without_unread_inputs(ir::without_dead_nodes(candidate));
    if (cleaned.size() < graph.size() && fails(cleaned)) return cleaned;
    return std::nullopt;
  };
  for (size_t i = 0; graph.outputs().size() > 1 && i < graph.outputs().size(); ++i)
    if (auto found = try_graph(*copy(graph, {.from = {}, .to = {}, .output = i}))) return found;
  for (uint32_t id = static_cast<uint32_t>(graph.size()); id-- > 0;)
    for (const Value operand : graph.nodes()[id].operands)
      if (const auto candidate = copy(graph, {.from = Value{id}, .to = operand, .output = {}}))
        if (auto found = try_graph(*candidate)) return found;
  return std::nullopt;
}

}  // namespace

Graph shrink(Graph graph, const std::function<bool(const Graph&)>& fails) {
  while (auto next = smaller(graph, fails)) graph = *std::move(next);
  return graph;
}

}  // namespace attacca::testing
