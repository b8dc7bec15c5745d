#include "run/cuda/places.hpp"

#include <algorithm>

#include "ir/graph/tensor.hpp"
#include "ir/packed/header.hpp"
#include "run/cuda/buffer_layout.hpp"

namespace attacca::run {
namespace {

using ir::Value;

size_t round_up(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Packed weights among the constants must be what their unpack op says.
Status check_packed_constants(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != ir::Op::Unpack || !graph[node.operands[0]].tensor) continue;
    ATTACCA_TRY(const ir::PackedLayout layout, ir::packed_layout(node.get<ir::UnpackAttrs>()));
    ATTACCA_TRY(const ir::Tensor packed, graph[node.operands[0]].tensor->contiguous());
    ATTACCA_TRY_VOID(
        ir::check_packed({packed.data(), static_cast<size_t>(packed.bytes())}, layout));
  }
  return {};
}

}  // namespace

void* Bases::at(const Place& place) const {
  switch (place.kind) {
    case Place::Kind::None:
      return nullptr;
    case Place::Kind::Input:
      return inputs[place.index];
    case Place::Kind::Output:
      return outputs[place.index];
    case Place::Kind::Constant:
      return constants + place.index;
    case Place::Kind::Workspace:
      return workspace + place.index;
  }
  return nullptr;
}

FixedPlaces::FixedPlaces(const ir::Graph& graph)
    : graph_(&graph), constant_at_(graph.size()), output_of_(graph.size(), -1) {}

Result<FixedPlaces> FixedPlaces::make(const gpu::Device& device, const ir::Graph& graph) {
  ATTACCA_TRY_VOID(check_packed_constants(graph));
  FixedPlaces places(graph);
  ATTACCA_TRY_VOID(places.upload_constants(device));
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Value value = graph.outputs()[i].value;
    if (places.output_of_[value.id] < 0 && graph[value].op != ir::Op::Input &&
        !places.constant_at_[value.id])
      places.output_of_[value.id] = static_cast<int>(i);
  }
  return places;
}

Place FixedPlaces::of(Value value) const {
  if (constant_at_[value.id]) return {Place::Kind::Constant, *constant_at_[value.id]};
  const auto& inputs = graph_->inputs();
  if (const auto found = std::find(inputs.begin(), inputs.end(), value); found != inputs.end())
    return {Place::Kind::Input, static_cast<size_t>(found - inputs.begin())};
  if (output_of_[value.id] >= 0)
    return {Place::Kind::Output, static_cast<size_t>(output_of_[value.id])};
  return {};
}

Status FixedPlaces::upload_constants(const gpu::Device& device) {
  std::vector<std::byte> bytes;
  for (uint32_t id = 0; id < graph_->size(); ++id) {
    const ir::Node& node = graph_->nodes()[id];
    if (node.op != ir::Op::Constant) continue;
    ir::Tensor tensor;
    if (node.tensor) {
      ATTACCA_TRY(tensor, node.tensor->contiguous());
    } else {
      tensor = ir::Tensor::of(node.type.dtype, {}, {node.literal->value});
    }
    constant_at_[id] = bytes.size();
    bytes.insert(bytes.end(), tensor.data(), tensor.data() + tensor.bytes());
    bytes.resize(round_up(bytes.size()));
  }
  if (bytes.empty() || !device.is_here()) return {};
  // On a stream of its own: the default one, and the context, may not be used while another stream
  // is captured into a CUDA graph.
  const gpu::OutsideCapture outside(device);
  ATTACCA_TRY(auto memory, gpu::DeviceMemory::allocate(device, bytes.size()));
  ATTACCA_TRY(const gpu::Stream stream, gpu::Stream::create(device));
  ATTACCA_TRY_VOID(memory.copy_from(bytes.data(), bytes.size(), stream.get()));
  ATTACCA_TRY_VOID(stream.synchronize());
  constants_ = std::make_shared<const gpu::DeviceMemory>(std::move(memory));
  return {};
}

}  // namespace attacca::run
