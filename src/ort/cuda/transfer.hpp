// Copies of tensors between the host and GPUs, and on a GPU, for ONNX Runtime.
#pragma once

#include <memory>
#include <vector>

#include "ort/api.hpp"
#include "ort/cuda/gpu.hpp"

namespace attacca::ort {

class Transfer : public OrtDataTransferImpl {
 public:
  // `gpus`: by ordinal.
  explicit Transfer(std::vector<std::shared_ptr<Gpu>> gpus);

 private:
  // Whether one of the two is on a GPU of these, and the other on the same one or on the host.
  bool can_copy(const OrtMemoryDevice* from, const OrtMemoryDevice* to) const;
  Status copy(const OrtValue* from, OrtValue* to, OrtSyncStream* stream) const;

  std::vector<std::shared_ptr<Gpu>> gpus_;
};

}  // namespace attacca::ort
