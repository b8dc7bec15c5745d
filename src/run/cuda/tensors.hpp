// A graph's inputs and outputs in device memory, for programs that have none of their own.
#pragma once

#include <vector>

#include "gpu/driver/device.hpp"
#include "ir/graph/graph.hpp"
#include "ir/interpret/interpreter.hpp"

namespace attacca::run {

class CudaTensors {
 public:
  // Copies the inputs to the device, laid out as the graph declares, and allocates outputs of these
  // shapes, filled with 0xff bytes, so that elements that no kernel writes are noticed. Waits for
  // the copies. Errors: an input of another dtype, too little device memory.
  static Result<CudaTensors> make(const gpu::Device& device, const ir::Graph& graph,
                                  const ir::SymbolValues& symbols, const ir::Bindings& inputs,
                                  const std::vector<std::vector<int64_t>>& output_shapes);

  // Addresses, in the graph's order.
  const std::vector<void*>& inputs() const { return inputs_; }
  const std::vector<void*>& outputs() const { return outputs_; }
  size_t bytes() const;

  // Waits for the stream first.
  Result<std::vector<ir::Tensor>> read_outputs(const gpu::Stream& stream) const;

 private:
  Result<void*> keep(const gpu::Device& device, size_t bytes);

  std::vector<gpu::DeviceMemory> memory_;  // inputs, then outputs
  std::vector<void*> inputs_, outputs_;
  std::vector<ir::DType> output_dtypes_;
  std::vector<std::vector<int64_t>> output_shapes_;
};

}  // namespace attacca::run
