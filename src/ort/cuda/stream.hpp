// A stream of a GPU and its events as ONNX Runtime's stream and notifications.
#pragma once

#include <memory>

#include "ort/api.hpp"
#include "ort/cuda/gpu.hpp"

namespace attacca::ort {

class Stream : public OrtSyncStreamImpl {
 public:
  // REQUIRES: an opened GPU.
  static Result<std::unique_ptr<Stream>> create(std::shared_ptr<Gpu> gpu);
  ~Stream() { gpu_->destroy_stream(handle_); }

 private:
  Stream(std::shared_ptr<Gpu> gpu, void* handle);

  std::shared_ptr<Gpu> gpu_;
  void* handle_;
};

}  // namespace attacca::ort
