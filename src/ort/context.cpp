#include "ort/context.hpp"

#include "ort/settings.hpp"

namespace attacca::ort {
namespace {

constexpr char kOp[] = "EPContext", kDomain[] = "com.microsoft";
constexpr char kSource[] = "source", kModel[] = "ep_cache_context";

Ort::OpAttr text_attribute(const char* name, const std::string& text) {
  return Ort::OpAttr(name, text.data(), static_cast<int>(text.size()), ORT_OP_ATTR_STRING);
}

Ort::OpAttr number_attribute(const char* name, int64_t number) {
  return Ort::OpAttr(name, &number, 1, ORT_OP_ATTR_INT);
}

// Empty where the node has no such text.
std::string text_of(const GraphNode& node, const char* name) {
  std::string text;
  for (const Ort::ConstOpAttr& attribute : node.attributes)
    if (attribute.GetName() == name && attribute.GetType() == ORT_OP_ATTR_STRING)
      Ort::ThrowOnError(attribute.GetValue(text));
  return text;
}

std::vector<std::string> names_of(const GraphView& graph,
                                  const std::vector<std::optional<size_t>>& values) {
  std::vector<std::string> names;
  for (const auto& value : values) names.push_back(value ? graph.values[*value].name : "");
  return names;
}

Result<Claim> saved_region(const GraphView& graph, size_t index, const Settings& settings) {
  const GraphNode& node = graph.nodes[index];
  auto region = Region::compile(text_of(node, kModel), settings.plan);
  if (!region) return region.status();
  std::vector<std::string> inputs = names_of(graph, node.inputs);
  std::vector<std::string> outputs = names_of(graph, node.outputs);
  if (inputs.size() != (*region)->inputs().size() || outputs.size() != (*region)->outputs().size())
    return Status("its region has another number of inputs or outputs", "node " + node.name,
                  "save the model again");
  (*region)->rename(std::move(inputs), std::move(outputs));
  return Claim{{index}, *std::move(region), "saved", text_of(node, kModel)};
}

}  // namespace

Ort::Node context_node(const std::string& name, const Region& region, const std::string& model) {
  std::vector<Ort::OpAttr> attributes;
  attributes.push_back(text_attribute(kModel, model));
  attributes.push_back(text_attribute(kSource, kProviderName));
  attributes.push_back(text_attribute("ep_sdk_version", std::string(version())));
  attributes.push_back(text_attribute("partition_name", name));
  attributes.push_back(number_attribute("main_context", 1));
  attributes.push_back(number_attribute("embed_mode", 1));
  return Ort::Node(kOp, kDomain, name, region.inputs(), region.outputs(), attributes);
}

Result<std::vector<Claim>> saved_regions(const GraphView& graph, const Settings& settings) {
  std::vector<Claim> claims;
  for (size_t index = 0; index < graph.nodes.size(); ++index) {
    const GraphNode& node = graph.nodes[index];
    if (node.op != kOp || node.domain != kDomain || text_of(node, kSource) != kProviderName)
      continue;
    auto claim = saved_region(graph, index, settings);
    if (!claim) return claim.status();
    claims.push_back(*std::move(claim));
  }
  return claims;
}

}  // namespace attacca::ort
