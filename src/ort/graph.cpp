#include "ort/graph.hpp"

#include <unordered_map>

namespace attacca::ort {
namespace {

class Reader {
 public:
  GraphView read(Ort::ConstGraph graph) {
    for (const Ort::ConstNode& node : graph.GetNodes()) add(node);
    return std::move(view_);
  }

 private:
  void add(const Ort::ConstNode& from) {
    const size_t index = view_.nodes.size();
    GraphNode node;
    node.name = from.GetName();
    node.op = from.GetOperatorType();
    node.domain = from.GetDomain();
    if (node.domain == "ai.onnx") node.domain.clear();
    node.version = from.GetSinceVersion();
    node.attributes = from.GetAttributes();
    node.nested = !from.GetSubgraphs().empty() || !from.GetImplicitInputs().empty();
    node.provider = from.GetEpName();
    for (const Ort::ConstValueInfo& input : from.GetInputs()) {
      node.inputs.push_back(value(input));
      if (node.inputs.back()) view_.values[*node.inputs.back()].consumers.push_back(index);
    }
    for (const Ort::ConstValueInfo& input : from.GetImplicitInputs()) {
      const auto read = value(input);
      if (!read) continue;
      node.captured.push_back(*read);
      view_.values[*read].consumers.push_back(index);
    }
    for (const Ort::ConstValueInfo& output : from.GetOutputs()) {
      node.outputs.push_back(value(output));
      if (node.outputs.back()) view_.values[*node.outputs.back()].producer = index;
    }
    view_.nodes.push_back(std::move(node));
  }

  std::optional<size_t> value(const Ort::ConstValueInfo& info) {
    if (static_cast<const OrtValueInfo*>(info) == nullptr) return std::nullopt;
    std::string name = info.GetName();
    if (name.empty()) return std::nullopt;
    const auto [slot, fresh] = known_.emplace(name, view_.values.size());
    if (fresh) view_.values.push_back(described(std::move(name), info));
    return slot->second;
  }

  static GraphValue described(std::string name, const Ort::ConstValueInfo& info) {
    GraphValue made;
    made.name = std::move(name);
    made.graph_output = info.IsGraphOutput();
    const Ort::ConstTypeInfo type = info.TypeInfo();
    if (type == nullptr || type.GetONNXType() != ONNX_TYPE_TENSOR) return made;
    const auto tensor = type.GetTensorTypeAndShapeInfo();
    made.dtype = tensor.GetElementType();
    // Texts have no size in bytes; no node that reads them is taken.
    if (made.dtype != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING && info.IsConstantInitializer()) {
      const OrtApi& api = Ort::GetApi();
      Ort::ThrowOnError(api.ValueInfo_GetInitializerValue(info, &made.constant));
      if (made.constant != nullptr)
        Ort::ThrowOnError(api.GetTensorSizeInBytes(made.constant, &made.constant_bytes));
    }
    std::vector<Extent> shape;
    const std::vector<const char*> symbols = tensor.GetSymbolicDimensions();
    for (const int64_t extent : tensor.GetShape()) {
      const size_t axis = shape.size();
      const std::string symbol = symbols[axis] == nullptr ? "" : symbols[axis];
      shape.push_back({extent, !symbol.empty() ? symbol : made.name + "." + std::to_string(axis)});
    }
    if (!shape.empty() || made.constant != nullptr || is_scalar(info))
      made.shape = std::move(shape);
    return made;
  }

  // Whether the rank is 0 in any case, by the op that makes it.
  static bool is_scalar(const Ort::ConstValueInfo& info) {
    const auto [producer, output] = info.GetProducerNode();
    return producer != nullptr && producer.GetOperatorType() == "DynamicQuantizeLinear" &&
           output > 0;
  }

  GraphView view_;
  std::unordered_map<std::string, size_t> known_;
};

}  // namespace

GraphView view_of(Ort::ConstGraph graph) {
  return Reader().read(graph);
}

std::string op_name(const GraphNode& node) {
  return node.domain.empty() ? node.op : node.domain + "." + node.op;
}

}  // namespace attacca::ort
