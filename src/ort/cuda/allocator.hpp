// A pool as ONNX Runtime's allocator.
#pragma once

#include "ort/api.hpp"
#include "ort/cuda/gpu.hpp"

namespace attacca::ort {

class Allocator : public OrtAllocator {
 public:
  // `info`: that of the GPU's memory, or of its page-locked host memory. The GPU is opened by the
  // first allocation: ONNX Runtime makes an allocator for every device when it loads the library.
  Allocator(Gpu& gpu, const OrtMemoryInfo* info);

 private:
  void* allocate(size_t bytes, void* stream) noexcept;

  Pool& pool() { return info_ == gpu_.pinned_info() ? gpu_.pinned() : gpu_.memory(); }

  Gpu& gpu_;
  const OrtMemoryInfo* info_;
};

}  // namespace attacca::ort
