#include "api/constants.hpp"

#include <map>

#include "fmt/format.h"

#include "api/names.hpp"
#include "api/rewrite.hpp"
#include "ir/interpret/interpreter.hpp"

namespace attacca::api {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;

Status check_input(const Graph& graph, const std::string& name, const ir::Tensor& tensor) {
  ATTACCA_TRY(const Value value, find_input(graph, name));
  const Node& input = graph[value];
  ATTACCA_TRY_VOID(ir::check_dtype(input, tensor));
  if (!ir::is_static(input.type.shape))
    return fail(fmt::format("input {} has the symbolic shape {}", name, to_string(input.type)),
                name, "a constant's sizes are numbers");
  ATTACCA_TRY(const std::vector<int64_t> shape, evaluate(input.type.shape, {}));
  if (shape != tensor.shape())
    return fail(fmt::format("a constant of shape {} for input {}: {}",
                            ir::to_string(tensor.shape()), name, to_string(input.type)),
                name, "give a constant of the input's shape");
  return {};
}

std::string fresh_name(const Graph& graph, size_t number) {
  std::string name = fmt::format("constant {}", number);
  while (graph.find(name)) name += "'";
  return name;
}

}  // namespace

Result<Graph> with_constants(const Graph& graph, const std::vector<Constant>& constants) {
  std::map<std::string_view, const Constant*> by_input;
  for (const Constant& constant : constants) {
    ATTACCA_TRY_VOID(check_input(graph, constant.input, constant.tensor));
    if (!by_input.emplace(constant.input, &constant).second)
      return fail(fmt::format("input {} has two constants", constant.input), constant.input,
                  "give one");
  }
  return rewrite(graph, [&](Graph& into, const Node& node) -> Result<std::optional<Value>> {
    const auto found = by_input.find(node.name);
    if (node.op != ir::Op::Input || found == by_input.end()) return std::nullopt;
    const Value value = into.constant(found->second->tensor);
    if (!found->second->label.empty()) ATTACCA_TRY_VOID(into.set_name(value, found->second->label));
    return value;
  });
}

Result<Lifted> lift_constants(const Graph& graph, int64_t most) {
  Lifted lifted;
  auto made = rewrite(graph, [&](Graph& into, const Node& node) -> Result<std::optional<Value>> {
    if (!node.tensor || node.tensor->size() <= most) return std::nullopt;
    Constant constant{fresh_name(graph, lifted.constants.size()), node.name, {}};
    ATTACCA_TRY(constant.tensor, node.tensor->contiguous());
    ATTACCA_TRY(const Value value, into.input(constant.input, node.type));
    lifted.constants.push_back(std::move(constant));
    return value;
  });
  if (!made) return tl::make_unexpected(std::move(made).error());
  lifted.graph = *std::move(made);
  return lifted;
}

Result<Graph> with_moved(Graph graph, const std::vector<fuse::MovedConstant>& moved) {
  if (moved.empty()) return graph;
  std::map<const std::byte*, const ir::Tensor*> places;
  for (const fuse::MovedConstant& each : moved) places.emplace(each.from, &each.to);
  return rewrite(graph, [&](Graph& into, const Node& node) -> Result<std::optional<Value>> {
    const auto place = node.tensor ? places.find(node.tensor->data()) : places.end();
    if (place == places.end() || node.tensor->dtype() != place->second->dtype() ||
        node.tensor->shape() != place->second->shape() || !node.tensor->is_contiguous())
      return std::nullopt;
    const Value value = into.constant(*place->second);
    if (!node.name.empty()) ATTACCA_TRY_VOID(into.set_name(value, node.name));
    return value;
  });
}

}  // namespace attacca::api
