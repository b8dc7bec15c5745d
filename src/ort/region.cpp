#include "ort/region.hpp"

#include <algorithm>
#include <span>

namespace attacca::ort {
namespace {

using plugin::text_of;

plugin::LayoutKey key_of(const std::vector<Given>& inputs) {
  plugin::LayoutKey key;
  for (const Given& input : inputs) key.add(input.data, input.shape);
  return key;
}

// In the order of kDTypeNames.
constexpr int32_t kElementTypes[] = {
    ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE,       ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,      ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8,         ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32,        ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL};
static_assert(std::size(kElementTypes) == std::size(kDTypeNames));

int32_t element_type(std::string_view dtype) {
  const auto at = std::find(std::begin(kDTypeNames), std::end(kDTypeNames), dtype);
  return at == std::end(kDTypeNames) ? ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED
                                     : kElementTypes[at - std::begin(kDTypeNames)];
}

}  // namespace

Result<std::shared_ptr<Region>> Region::compile(const std::string& model, const Options& options) {
  const auto imported = Graph::from_onnx(std::as_bytes(std::span(model)));
  if (!imported) return imported.status();
  auto plan = Plan::compile(*imported, options);
  if (!plan) return plan.status();
  const std::shared_ptr<Region> region(new Region(*std::move(plan)));
  for (const TensorInfo& info : region->plan_.inputs()) {
    region->inputs_.push_back(info.name);
    region->declared_.push_back({element_type(info.dtype), info});
  }
  for (const TensorInfo& info : region->plan_.outputs()) region->outputs_.push_back(info.name);
  return region;
}

void Region::rename(std::vector<std::string> inputs, std::vector<std::string> outputs) {
  inputs_ = std::move(inputs);
  outputs_ = std::move(outputs);
}

Status Region::wrong(size_t input, const Shape& shape, const std::string& wanted) const {
  return {inputs_[input] + " has shape " + text_of(shape) + " where the region takes " + wanted,
          inputs_[input], "give the model inputs of the shapes that it declares"};
}

Result<Instance> Region::prepare(const std::vector<Given>& inputs) const {
  std::vector<std::pair<std::string, int64_t>> sizes;
  std::vector<int32_t> alignments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& info = declared_[i].info;
    if (inputs[i].dtype != declared_[i].dtype || inputs[i].shape.size() != info.shape.size())
      return wrong(i, inputs[i].shape, info.type);
    for (size_t axis = 0; axis < info.shape.size(); ++axis) {
      const std::string& symbol = info.shape[axis];  // or a number
      const bool bound = std::any_of(sizes.begin(), sizes.end(),
                                     [&](const auto& size) { return size.first == symbol; });
      if (!bound && std::find(symbols_.begin(), symbols_.end(), symbol) != symbols_.end())
        sizes.emplace_back(symbol, inputs[i].shape[axis]);
    }
    alignments.push_back(alignment_of(inputs[i].data));
  }
  alignments.resize(inputs.size() + outputs_.size(), 16);
  auto instance = plan_.prepare(sizes, alignments);
  if (!instance) return instance;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (const Shape wanted = instance->input_shape(i); wanted != inputs[i].shape)
      return wrong(i, inputs[i].shape, text_of(wanted));
  return instance;
}

Result<Instance> Region::instance(const std::vector<Given>& inputs) {
  return instances_.get(key_of(inputs), [&] { return prepare(inputs); });
}

Status Region::run(const Instance& instance, const std::vector<Given>& inputs,
                   const std::vector<void*>& outputs, Workspace workspace, void* stream) {
  std::vector<const void*> addresses;
  for (const Given& input : inputs) addresses.push_back(input.data);
  return instance.run(addresses, outputs, workspace, stream);
}

}  // namespace attacca::ort
