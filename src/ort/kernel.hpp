// A region as the node that ONNX Runtime runs in place of its nodes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ort/api.hpp"
#include "ort/cuda/gpu.hpp"
#include "ort/region.hpp"

namespace attacca::ort {

class Kernel : public OrtNodeComputeInfo {
 public:
  // `gpu`: where the region runs; null: on the CPU. `inputs`, `outputs`: the names of the fused
  // node's, in its order. Errors: one that the region has and the node lacks.
  static Result<std::unique_ptr<Kernel>> make(std::shared_ptr<Region> region,
                                              std::shared_ptr<Gpu> gpu,
                                              const std::vector<std::string>& inputs,
                                              const std::vector<std::string>& outputs);

 private:
  Kernel(std::shared_ptr<Region> region, std::shared_ptr<Gpu> gpu);
  OrtStatus* run(OrtKernelContext* context) const;
  OrtStatus* run_on_cpu(OrtKernelContext* context) const;

  std::shared_ptr<Region> region_;
  std::shared_ptr<Gpu> gpu_;
  std::vector<size_t> inputs_, outputs_;  // where the region's are among the node's
};

}  // namespace attacca::ort
