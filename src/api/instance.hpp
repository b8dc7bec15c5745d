// A plan for certain sizes, as in the public interface.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "api/tensor.hpp"
#include "run/pipeline.hpp"

namespace attacca::api {

// Immutable; keeps what it needs of its plan.
class Instance {
 public:
  // `compiled`: for the layouts of these tensors, except those of outputs on the CPU. One of `cpu`
  // and `cuda` is null.
  Instance(std::shared_ptr<const run::Compiled> compiled, std::vector<Tensor> inputs,
           std::vector<Tensor> outputs, std::shared_ptr<const run::CpuInstance> cpu,
           std::shared_ptr<const run::CudaInstance> cuda);

  const std::vector<Tensor>& inputs() const { return inputs_; }
  const std::vector<Tensor>& outputs() const { return outputs_; }
  size_t workspace_bytes() const;
  // Empty on the CPU.
  std::span<const run::Decision> decisions() const;
  // The partition of the decisions' regions.
  const fuse::Partition& partition() const { return *compiled_->prepared.partition; }

  // As attacca_instance_run (attacca.h).
  Status run(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace,
             size_t workspace_bytes, void* stream) const;

 private:
  Status check_overlap(std::span<const void* const> inputs, std::span<void* const> outputs,
                       const void* workspace) const;
  Status run_on_cpu(std::span<const void* const> inputs, std::span<void* const> outputs) const;

  std::shared_ptr<const run::Compiled> compiled_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<bool> row_major_;  // of the outputs
  std::shared_ptr<const run::CpuInstance> cpu_;
  std::shared_ptr<const run::CudaInstance> cuda_;
};

}  // namespace attacca::api
