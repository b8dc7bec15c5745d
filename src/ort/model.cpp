#include "ort/model.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "ort/wire.hpp"

namespace attacca::ort {
namespace {

constexpr size_t kSmallBytes = 2048;               // shapes, axes, scales
constexpr size_t kMostBytes = size_t{2000} << 20;  // protobuf reads 2 GiB
constexpr int64_t kIrVersion = 10;

// The numbers of fields in ONNX's schema.
enum ModelField { kModelIr = 1, kModelGraph = 7, kModelOpset = 8, kMetadata = 14 };
enum MetadataField { kMetadataKey = 1 };
enum OpsetField { kOpsetDomain = 1, kOpsetVersion = 2 };
enum GraphField { kGraphNode = 1, kGraphName = 2, kInitializer = 5, kInput = 11, kOutput = 12 };
enum NodeField { kNodeIn = 1, kNodeOut = 2, kNodeName = 3, kNodeOp = 4, kAttr = 5, kDomain = 7 };
enum AttributeField {
  kAttrName = 1,
  kAttrF = 2,
  kAttrI = 3,
  kAttrS = 4,
  kAttrT = 5,
  kAttrFloats = 7,
  kAttrInts = 8,
  kAttrStrings = 9,
  kAttrType = 20
};
enum AttributeType { kF = 1, kI = 2, kS = 3, kT = 4, kFloats = 6, kInts = 7, kStrings = 8 };
enum TensorField { kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorRaw = 9 };
enum ValueField { kValueName = 1, kValueType = 2 };
enum TypeField { kTypeTensor = 1, kTensorElement = 1, kTensorShape = 2 };
enum ShapeField { kShapeDim = 1, kDimValue = 1, kDimParam = 2 };

Message tensor_message(const std::string& name, const OrtValue* value, bool with_data = true) {
  const Ort::ConstValue tensor{value};
  const auto type = tensor.GetTensorTypeAndShapeInfo();
  size_t bytes = 0;
  Ort::ThrowOnError(Ort::GetApi().GetTensorSizeInBytes(value, &bytes));
  Message message;
  for (const int64_t extent : type.GetShape()) message.number(kTensorDims, extent);
  message.number(kTensorType, type.GetElementType());
  message.text(kTensorName, name);
  if (with_data)
    message.text(kTensorRaw, {static_cast<const char*>(tensor.GetTensorRawData()), bytes});
  return message;
}

template <class T>
T read(const Ort::ConstOpAttr& attribute) {
  T value{};
  Ort::ThrowOnError(attribute.GetValue(value));
  return value;
}

template <class T>
std::vector<T> read_all(const Ort::ConstOpAttr& attribute) {
  std::vector<T> values;
  Ort::ThrowOnError(attribute.GetValueArray(values));
  return values;
}

// False where ONNX Runtime does not hand the attribute over.
bool write(const Ort::ConstOpAttr& attribute, Message& into) {
  into.text(kAttrName, attribute.GetName());
  switch (attribute.GetType()) {
    case ORT_OP_ATTR_INT:
      into.number(kAttrI, read<int64_t>(attribute));
      into.number(kAttrType, kI);
      return true;
    case ORT_OP_ATTR_FLOAT:
      into.real(kAttrF, read<float>(attribute));
      into.number(kAttrType, kF);
      return true;
    case ORT_OP_ATTR_STRING:
      into.text(kAttrS, read<std::string>(attribute));
      into.number(kAttrType, kS);
      return true;
    case ORT_OP_ATTR_INTS:
      for (const int64_t each : read_all<int64_t>(attribute)) into.number(kAttrInts, each);
      into.number(kAttrType, kInts);
      return true;
    case ORT_OP_ATTR_FLOATS:
      for (const float each : read_all<float>(attribute)) into.real(kAttrFloats, each);
      into.number(kAttrType, kFloats);
      return true;
    case ORT_OP_ATTR_STRINGS:
      for (const auto& each : read_all<std::string>(attribute)) into.text(kAttrStrings, each);
      into.number(kAttrType, kStrings);
      return true;
    case ORT_OP_ATTR_TENSOR: {
      Ort::Value tensor{nullptr};
      Ort::ThrowOnError(attribute.GetTensorAttributeAsOrtValue(tensor));
      into.message(kAttrT, tensor_message("", tensor));
      into.number(kAttrType, kT);
      return true;
    }
    default:
      return false;
  }
}

class Writer {
 public:
  Writer(const GraphView& graph, const std::vector<size_t>& nodes, Constants constants)
      : graph_(graph), nodes_(nodes), constants_(constants) {}

  Result<Model> run(const std::vector<size_t>& more) {
    model_.inputs = inputs_of(graph_, nodes_);
    model_.outputs = outputs_of(graph_, nodes_);
    for (const size_t value : more)
      if (std::find(model_.outputs.begin(), model_.outputs.end(), value) == model_.outputs.end())
        model_.outputs.push_back(value);
    body_.text(kGraphName, "region");
    for (size_t k = 0; k < nodes_.size(); ++k)
      if (Status status = add_node(graph_.nodes[nodes_[k]], "n" + std::to_string(k)); !status)
        return status;
    if (Status status = add_values(); !status) return status;
    Message message;
    message.number(kModelIr, kIrVersion);
    for (const auto& [domain, version] : opsets_) {
      Message opset;
      opset.text(kOpsetDomain, domain);
      opset.number(kOpsetVersion, version);
      message.message(kModelOpset, opset);
    }
    message.message(kModelGraph, body_);
    // Symbols that differ are not taken for equal: ONNX Runtime broadcasts one that is 1
    // (kBroadcastsAtRunTime in src/import/onnx/onnx.cpp).
    Message metadata;
    metadata.text(kMetadataKey, "attacca.broadcasts_at_run_time");
    message.message(kMetadata, metadata);
    model_.bytes = std::move(message).take();
    return std::move(model_);
  }

 private:
  // Every op is in its last version up to the graph's opset. It is that, too, up to the newest
  // version of these nodes' ops, which the importer is more likely to know.
  Status add_node(const GraphNode& node, const std::string& name) {
    int64_t& opset = opsets_[node.domain];
    opset = std::max<int64_t>(opset, node.version);
    Message message;
    for (const auto& input : node.inputs) message.text(kNodeIn, input ? named(*input) : "");
    for (const auto& output : node.outputs) message.text(kNodeOut, output ? named(*output) : "");
    message.text(kNodeName, name);
    message.text(kNodeOp, node.op);
    message.text(kDomain, node.domain);
    for (const Ort::ConstOpAttr& attribute : node.attributes) {
      Message written;
      if (!write(attribute, written))
        return {"its attribute " + attribute.GetName() + " has a kind that plug-ins are not given",
                "node " + name + " (" + node.op + ")", "leave the node to ONNX Runtime"};
      message.message(kAttr, written);
    }
    body_.message(kGraphNode, message);
    return {};
  }

  std::string named(size_t value) {
    const auto [slot, fresh] = numbers_.emplace(value, model_.values.size());
    if (fresh) model_.values.push_back(value);
    return "v" + std::to_string(slot->second);
  }

  Status add_values() {
    size_t bytes = 0;
    for (const size_t value : model_.values) {
      const GraphValue& known = graph_.values[value];
      if (known.constant == nullptr) continue;
      const bool model = constants_ == Constants::All || constants_ == Constants::Structure;
      if (!model && known.constant_bytes > kSmallBytes) {
        if (Status status = add_border(kInput, value); !status) return status;
        continue;
      }
      if (constants_ == Constants::All) bytes += known.constant_bytes;
      if (bytes > kMostBytes)
        return {"its constants exceed 2000 MiB, more than one ONNX model may hold", "the region",
                "leave it to ONNX Runtime"};
      const bool with_data = constants_ != Constants::Structure || decides(value);
      body_.message(kInitializer, tensor_message(named(value), known.constant, with_data));
    }
    for (const size_t value : model_.inputs)
      if (Status status = add_border(kInput, value); !status) return status;
    for (const size_t value : model_.outputs)
      if (Status status = add_border(kOutput, value); !status) return status;
    return {};
  }

  // Whether a constant's numbers say what is computed, as shapes, axes, powers and factors do.
  // Weights and scales do not.
  bool decides(size_t value) const {
    const GraphValue& known = graph_.values[value];
    const bool integer = known.dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 ||
                         known.dtype == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
    const bool scale = std::any_of(
        known.consumers.begin(), known.consumers.end(),
        [&](size_t node) { return graph_.nodes[node].op.find("uantize") != std::string::npos; });
    return !scale && known.constant_bytes <= (integer ? kSmallBytes : sizeof(double));
  }

  Status add_border(uint32_t field, size_t value) {
    const GraphValue& known = graph_.values[value];
    if (known.dtype == 0) return at_node_of(value, known.name + " is not a tensor");
    Message tensor;
    tensor.number(kTensorElement, known.dtype);
    if (field == kInput) {
      if (!known.shape && constants_ != Constants::Probe)
        return at_node_of(value, "the rank of " + known.name + " is unknown, or 0");
      Message shape;
      if (known.shape)
        for (const Extent& extent : *known.shape) shape.message(kShapeDim, dim(extent));
      tensor.message(kTensorShape, shape);
    }
    Message type, info;
    type.message(kTypeTensor, tensor);
    info.text(kValueName, named(value));
    info.message(kValueType, type);
    body_.message(field, info);
    return {};
  }

  Status at_node_of(size_t value, std::string what) const {
    for (size_t k = 0; k < nodes_.size(); ++k) {
      const GraphNode& node = graph_.nodes[nodes_[k]];
      for (const auto* tensors : {&node.inputs, &node.outputs})
        if (std::find(tensors->begin(), tensors->end(), value) != tensors->end())
          return {std::move(what), "node n" + std::to_string(k) + " (" + node.op + ")",
                  "export the model with shapes"};
    }
    return {std::move(what), "the region", ""};
  }

  Message dim(const Extent& extent) {
    Message message;
    if (extent.number >= 0) {
      message.number(kDimValue, extent.number);
      return message;
    }
    auto& symbols = model_.symbols;
    auto at = std::find(symbols.begin(), symbols.end(), extent.symbol);
    if (at == symbols.end()) at = symbols.insert(at, extent.symbol);
    message.text(kDimParam, "s" + std::to_string(at - symbols.begin()));
    return message;
  }

  const GraphView& graph_;
  const std::vector<size_t>& nodes_;
  const Constants constants_;
  Model model_;
  Message body_;
  std::map<size_t, size_t> numbers_;
  std::map<std::string, int64_t> opsets_;
};

}  // namespace

Result<Model> model_of(const GraphView& graph, const std::vector<size_t>& nodes,
                       Constants constants, const std::vector<size_t>& more) {
  return Writer(graph, nodes, constants).run(more);
}

const std::string& name_in(const GraphView& graph, const Model& model, const std::string& tensor) {
  size_t index = model.values.size();
  std::from_chars(tensor.data() + 1, tensor.data() + tensor.size(), index);
  return graph.values[model.values.at(index)].name;
}

std::vector<size_t> inputs_of(const GraphView& graph, const std::vector<size_t>& nodes) {
  const std::set<size_t> inside(nodes.begin(), nodes.end());
  std::set<size_t> seen;
  std::vector<size_t> inputs;
  for (const size_t node : nodes)
    for (const auto& input : graph.nodes[node].inputs) {
      if (!input || graph.values[*input].constant != nullptr) continue;
      const auto producer = graph.values[*input].producer;
      if (!(producer && inside.count(*producer)) && seen.insert(*input).second)
        inputs.push_back(*input);
    }
  return inputs;
}

std::vector<size_t> outputs_of(const GraphView& graph, const std::vector<size_t>& nodes) {
  const std::set<size_t> inside(nodes.begin(), nodes.end());
  std::vector<size_t> outputs;
  for (const size_t node : nodes)
    for (const auto& output : graph.nodes[node].outputs) {
      if (!output) continue;
      const GraphValue& value = graph.values[*output];
      const bool leaves =
          value.graph_output || std::any_of(value.consumers.begin(), value.consumers.end(),
                                            [&](size_t each) { return !inside.count(each); });
      if (leaves) outputs.push_back(*output);
    }
  return outputs;
}

std::optional<size_t> node_of(const Status& status) {
  const std::string_view where = status.where();
  if (!where.starts_with("node n")) return std::nullopt;
  size_t index = 0;
  const char* const end = where.data() + where.size();
  const auto [rest, error] = std::from_chars(where.data() + 6, end, index);
  if (error != std::errc() || rest == end || *rest != ' ') return std::nullopt;
  return index;
}

}  // namespace attacca::ort
