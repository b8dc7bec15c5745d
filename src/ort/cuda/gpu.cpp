#include "ort/cuda/gpu.hpp"

namespace attacca::ort {
namespace {

// With the alignment that "cuda" in ONNX Runtime's bindings has: it is a part of what names memory.
Ort::MemoryInfo info_of(const char* name, int ordinal, OrtDeviceMemoryType type) {
  constexpr size_t kAnyAlignment = 0;
  return {name,          OrtMemoryInfoDeviceType_GPU, kNvidia, static_cast<uint32_t>(ordinal), type,
          kAnyAlignment, OrtDeviceAllocator};
}

}  // namespace

std::optional<Place> place_of(const OrtMemoryDevice* device) {
  const OrtEpApi& api = Ort::GetEpApi();
  if (device == nullptr || api.MemoryDevice_GetDeviceType(device) == OrtMemoryInfoDeviceType_CPU)
    return Place{};
  if (api.MemoryDevice_GetDeviceType(device) != OrtMemoryInfoDeviceType_GPU ||
      api.MemoryDevice_GetVendorId(device) != kNvidia)
    return std::nullopt;
  const bool pinned = api.MemoryDevice_GetMemoryType(device) == OrtDeviceMemoryType_HOST_ACCESSIBLE;
  return Place{pinned, api.MemoryDevice_GetDeviceId(device)};
}

Gpu::Gpu(int ordinal)
    : device_name_("cuda:" + std::to_string(ordinal)),
      memory_info_(info_of("Attacca CUDA", ordinal, OrtDeviceMemoryType_DEFAULT)),
      pinned_info_(info_of("Attacca CUDA pinned", ordinal, OrtDeviceMemoryType_HOST_ACCESSIBLE)) {}

Status Gpu::open() {
  const std::lock_guard lock(mutex_);
  if (opened_ != nullptr) return {};
  const auto device = Device::open(device_name_);
  if (!device) return device.status();
  opened_ = std::make_unique<Opened>(*device);
  return {};
}

Result<void*> Gpu::create_stream() {
  return device().create_stream();
}

void Gpu::destroy_stream(void* stream) {
  (void)synchronize(stream);
  (void)device().destroy_stream(stream);
}

void Gpu::busy(void* stream) {
  memory().busy(stream);
  pinned().busy(stream);
}

Status Gpu::synchronize(void* stream) {
  Status done = device().synchronize(stream);
  if (!done) return done;
  memory().idle(stream);
  pinned().idle(stream);
  return done;
}

}  // namespace attacca::ort
