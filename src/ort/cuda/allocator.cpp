#include "ort/cuda/allocator.hpp"

#include <exception>

namespace attacca::ort {

Allocator::Allocator(Gpu& gpu, const OrtMemoryInfo* info) : OrtAllocator{}, gpu_(gpu), info_(info) {
  version = ORT_API_VERSION;
  Alloc = [](OrtAllocator* self, size_t bytes) {
    return static_cast<Allocator*>(self)->allocate(bytes, nullptr);
  };
  Reserve = Alloc;
  AllocOnStream = [](OrtAllocator* self, size_t bytes, OrtSyncStream* stream) {
    void* const on = stream == nullptr ? nullptr : Ort::GetApi().SyncStream_GetHandle(stream);
    return static_cast<Allocator*>(self)->allocate(bytes, on);
  };
  Free = [](OrtAllocator* self, void* block) {
    if (block != nullptr) static_cast<Allocator*>(self)->pool().give_back(block);
  };
  Info = [](const OrtAllocator* self) { return static_cast<const Allocator*>(self)->info_; };
}

// ONNX Runtime's interface has no other sign of a failure than a null pointer.
void* Allocator::allocate(size_t bytes, void* stream) noexcept {
  try {
    if (!gpu_.open()) return nullptr;
    const auto made = pool().allocate(bytes, stream);
    return made ? *made : nullptr;
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace attacca::ort
