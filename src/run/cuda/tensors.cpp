#include "run/cuda/tensors.hpp"

#include "ir/graph/span.hpp"
#include "run/shared/input_layout.hpp"

namespace attacca::run {
namespace {

using ir::Tensor;

size_t span_bytes(const Tensor& tensor) {
  return static_cast<size_t>(*ir::span_of(tensor.shape(), tensor.strides()) *
                             ir::size_of(tensor.dtype()));
}

}  // namespace

Result<void*> CudaTensors::keep(const gpu::Device& device, size_t bytes) {
  ATTACCA_TRY(auto block, gpu::DeviceMemory::allocate(device, bytes));
  memory_.push_back(std::move(block));
  return memory_.back().pointer();
}

Result<CudaTensors> CudaTensors::make(const gpu::Device& device, const ir::Graph& graph,
                                      const ir::SymbolValues& symbols, const ir::Bindings& inputs,
                                      const std::vector<std::vector<int64_t>>& output_shapes) {
  CudaTensors made;
  for (const ir::Value value : graph.inputs()) {
    const ir::Node& input = graph[value];
    const Tensor& given = inputs.at(input.name);
    ATTACCA_TRY_VOID(check_dtype(input, given));
    ATTACCA_TRY(const Tensor tensor, laid_out(input, given, symbols));
    ATTACCA_TRY(void* const address, made.keep(device, span_bytes(tensor)));
    made.inputs_.push_back(address);
    ATTACCA_TRY_VOID(made.memory_.back().copy_from(tensor.data(), span_bytes(tensor)));
  }
  made.output_shapes_ = output_shapes;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    made.output_dtypes_.push_back(graph.type(graph.outputs()[i].value).dtype);
    auto bytes = static_cast<size_t>(ir::size_of(made.output_dtypes_[i]));
    for (const int64_t extent : output_shapes[i]) bytes *= static_cast<size_t>(extent);
    ATTACCA_TRY(void* const address, made.keep(device, bytes));
    made.outputs_.push_back(address);
    ATTACCA_TRY_VOID(made.memory_.back().fill(0xff));
  }
  ATTACCA_TRY_VOID(device.synchronize());
  return made;
}

size_t CudaTensors::bytes() const {
  size_t total = 0;
  for (const gpu::DeviceMemory& block : memory_) total += block.size();
  return total;
}

Result<std::vector<Tensor>> CudaTensors::read_outputs(const gpu::Stream& stream) const {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    ATTACCA_TRY(Tensor tensor, Tensor::make(output_dtypes_[i], output_shapes_[i]));
    ATTACCA_TRY_VOID(memory_[inputs_.size() + i].copy_to(
        tensor.data(), static_cast<size_t>(tensor.bytes()), stream.get()));
    tensors.push_back(std::move(tensor));
  }
  ATTACCA_TRY_VOID(stream.synchronize());
  return tensors;
}

}  // namespace attacca::run
