#include "ort/shapes.hpp"

#include <cctype>
#include <charconv>
#include <span>

#include "attacca/attacca.hpp"

namespace attacca::ort {
namespace {

bool is_float(int32_t dtype) {
  return dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT ||
         dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ||
         dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE ||
         dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
}

std::vector<size_t> floats_of(const GraphView& graph, const Group& group) {
  std::vector<size_t> values;
  for (const size_t node : group)
    for (const auto& output : graph.nodes[node].outputs)
      if (output && is_float(graph.values[*output].dtype)) values.push_back(*output);
  return values;
}

// "2*s0 + 1" with the graph's names in place of the model's.
std::string renamed(const std::string& text, const Model& model) {
  std::string made;
  for (size_t i = 0; i < text.size();) {
    size_t symbol = 0;
    const auto [rest, error] =
        std::from_chars(text.data() + i + 1, text.data() + text.size(), symbol);
    const bool begins = i == 0 || !std::isalnum(static_cast<unsigned char>(text[i - 1]));
    if (text[i] == 's' && begins && error == std::errc() && symbol < model.symbols.size()) {
      made += model.symbols[symbol];
      i = static_cast<size_t>(rest - text.data());
    } else {
      made += text[i++];
    }
  }
  return made;
}

}  // namespace

Sizes typical_sizes(const GraphView& graph, const std::vector<std::string>& symbols,
                    const Model& model, const Settings& settings) {
  Sizes sizes;
  for (const std::string& symbol : symbols) {
    const std::string name = renamed(symbol, model);
    const auto known = graph.sizes.find(name);
    sizes.emplace_back(symbol,
                       known != graph.sizes.end() ? known->second : size_of(settings, name));
  }
  return sizes;
}

std::vector<std::string> unknown_dims(const GraphView& graph, const Settings& settings) {
  std::map<std::string, int64_t> unknown = settings.dims;
  for (const GraphValue& value : graph.values)
    if (value.shape)
      for (const Extent& extent : *value.shape) unknown.erase(extent.symbol);
  std::vector<std::string> names;
  for (const auto& [name, size] : unknown) names.push_back(name);
  return names;
}

void find_shapes(GraphView& graph, const Group& group, const Settings& settings) {
  const auto model = model_of(graph, group, Constants::Small, floats_of(graph, group));
  if (!model) return;
  const auto imported = Graph::from_onnx(std::as_bytes(std::span(model->bytes)));
  if (!imported) return;
  const auto plan = Plan::compile(*imported, {.threads = 1, .fuse = false});
  if (!plan) return;
  const auto instance = plan->prepare(typical_sizes(graph, plan->symbols(), *model, settings));
  const std::vector<TensorInfo> outputs = plan->outputs();
  for (size_t i = 0; i < outputs.size() && i < model->outputs.size(); ++i) {
    std::vector<Extent> shape;
    for (const std::string& text : outputs[i].shape) {
      int64_t number = -1;
      const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      const bool whole = error == std::errc() && rest == text.data() + text.size();
      shape.push_back(whole ? Extent{number, {}} : Extent{-1, renamed(text, *model)});
      if (!whole && instance)
        graph.sizes.emplace(shape.back().symbol, instance->output_shape(i)[shape.size() - 1]);
    }
    graph.values[model->outputs[i]].shape = std::move(shape);
  }
}

}  // namespace attacca::ort
