#include "ort/cuda/transfer.hpp"

#include "ort/status.hpp"

namespace attacca::ort {
namespace {

Status moved(const Device& device, const Place& from_place, const Place& to_place, const void* from,
             void* to, size_t bytes, void* stream) {
  if (from_place.host) return device.upload(to, from, bytes, stream);
  if (to_place.host) return device.download(to, from, bytes, stream);
  return device.copy(to, from, bytes, stream);
}

Status no_memory(size_t bytes) {
  return {"the GPU has no memory for a tensor of " + std::to_string(bytes) + " bytes", "a copy",
          "run with smaller sizes, or free memory on the GPU"};
}

}  // namespace

Transfer::Transfer(std::vector<std::shared_ptr<Gpu>> gpus)
    : OrtDataTransferImpl{}, gpus_(std::move(gpus)) {
  ort_version_supported = ORT_API_VERSION;
  Release = [](OrtDataTransferImpl* self) noexcept { delete static_cast<Transfer*>(self); };
  CanCopy = [](const OrtDataTransferImpl* self, const OrtMemoryDevice* from,
               const OrtMemoryDevice* to) noexcept {
    return static_cast<const Transfer*>(self)->can_copy(from, to);
  };
  CopyTensors = [](OrtDataTransferImpl* self, const OrtValue** from, OrtValue** to,
                   OrtSyncStream** streams, size_t count) noexcept -> OrtStatus* {
    return guarded([&]() -> OrtStatus* {
      for (size_t i = 0; i < count; ++i) {
        OrtSyncStream* const stream = streams == nullptr ? nullptr : streams[i];
        if (Status status = static_cast<Transfer*>(self)->copy(from[i], to[i], stream); !status)
          return to_ort(status, kGpuFailed);
      }
      return nullptr;
    });
  };
}

bool Transfer::can_copy(const OrtMemoryDevice* from, const OrtMemoryDevice* to) const {
  const auto source = place_of(from), target = place_of(to);
  if (!source || !target || (source->host && target->host)) return false;
  const uint32_t ordinal = source->host ? target->ordinal : source->ordinal;
  const bool one_device = source->host || target->host || source->ordinal == target->ordinal;
  return one_device && ordinal < gpus_.size();
}

// Without a stream the tensors may be those of work on any stream, and are needed at once.
Status Transfer::copy(const OrtValue* from, OrtValue* to, OrtSyncStream* on) const {
  const OrtEpApi& api = Ort::GetEpApi();
  const auto source = place_of(api.Value_GetMemoryDevice(from));
  const auto target = place_of(api.Value_GetMemoryDevice(to));
  size_t bytes = 0;
  Ort::ThrowOnError(Ort::GetApi().GetTensorSizeInBytes(from, &bytes));
  if (bytes == 0) return {};
  const void* const data = Ort::ConstValue{from}.GetTensorRawData();
  void* const into = Ort::UnownedValue{to}.GetTensorMutableRawData();
  if (data == nullptr || into == nullptr) return no_memory(bytes);
  Gpu& gpu = *gpus_[source->host ? target->ordinal : source->ordinal];
  if (Status status = gpu.open(); !status) return status;
  void* const stream = on == nullptr ? nullptr : Ort::GetApi().SyncStream_GetHandle(on);
  if (stream != nullptr) {
    gpu.busy(stream);
    return moved(gpu.device(), *source, *target, data, into, bytes, stream);
  }
  if (Status status = gpu.device().synchronize(); !status) return status;
  if (Status status = moved(gpu.device(), *source, *target, data, into, bytes, nullptr); !status)
    return status;
  return gpu.device().synchronize(nullptr);
}

}  // namespace attacca::ort
