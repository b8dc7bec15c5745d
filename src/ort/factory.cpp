// libattacca_ort.so: what ONNX Runtime calls first, RegisterExecutionProviderLibrary's functions.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <vector>

#include "attacca/attacca.hpp"
#include "ort/api.hpp"
#include "ort/cuda/allocator.hpp"
#include "ort/cuda/gpu.hpp"
#include "ort/cuda/stream.hpp"
#include "ort/cuda/transfer.hpp"
#include "ort/provider.hpp"
#include "ort/settings.hpp"
#include "ort/status.hpp"

namespace attacca::ort {
namespace {

constexpr char kVendor[] = "Attacca";

// The driver's GPUs, where it can be opened.
std::vector<std::shared_ptr<Gpu>> all_gpus() {
  std::vector<std::shared_ptr<Gpu>> gpus;
  const auto count = device_count();
  for (int ordinal = 0; count && ordinal < *count; ++ordinal)
    gpus.push_back(std::make_shared<Gpu>(ordinal));
  return gpus;
}

bool is_gpu(const OrtHardwareDevice* device) {
  const OrtApi& api = Ort::GetApi();
  return api.HardwareDevice_Type(device) == OrtHardwareDeviceType_GPU &&
         api.HardwareDevice_VendorId(device) == kNvidia;
}

bool is_cpu(const OrtHardwareDevice* device) {
  return Ort::GetApi().HardwareDevice_Type(device) == OrtHardwareDeviceType_CPU;
}

bool is_since_1_30(const char* version) {
  int major = 0, minor = 0;
  return std::sscanf(version, "%d.%d", &major, &minor) == 2 &&
         (major > 1 || (major == 1 && minor >= 30));
}

class Factory : public OrtEpFactory {
 public:
  // `runtime`: ONNX Runtime's version, "1.32.0".
  explicit Factory(const char* runtime)
      : OrtEpFactory{}, gpus_(all_gpus()), spin_can_be_short_(is_since_1_30(runtime)) {
    ort_version_supported = ORT_API_VERSION;
    GetName = [](const OrtEpFactory*) noexcept { return kProviderName; };
    GetVendor = [](const OrtEpFactory*) noexcept { return kVendor; };
    GetVendorId = [](const OrtEpFactory*) noexcept { return uint32_t{0}; };
    GetVersion = [](const OrtEpFactory*) noexcept { return attacca_version(); };
    GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                             size_t count, OrtEpDevice** made, size_t most,
                             size_t* number) noexcept -> OrtStatus* {
      return guarded([&] { return of(self).supported({devices, count}, {made, most}, number); });
    };
    CreateEp = [](OrtEpFactory* self, const OrtHardwareDevice* const*,
                  const OrtKeyValuePairs* const* metadata, size_t count,
                  const OrtSessionOptions* options, const OrtLogger* logger,
                  OrtEp** made) noexcept -> OrtStatus* {
      return guarded([&] { return of(self).create({metadata, count}, options, logger, made); });
    };
    ReleaseEp = [](OrtEpFactory*, OrtEp* each) noexcept { delete static_cast<Provider*>(each); };
    CreateAllocator = [](OrtEpFactory* self, const OrtMemoryInfo* info, const OrtKeyValuePairs*,
                         OrtAllocator** made) noexcept -> OrtStatus* {
      return guarded([&] { return of(self).create_allocator(info, made); });
    };
    ReleaseAllocator = [](OrtEpFactory*, OrtAllocator* each) noexcept {
      delete static_cast<Allocator*>(each);
    };
    CreateDataTransfer = [](OrtEpFactory* self, OrtDataTransferImpl** made) noexcept -> OrtStatus* {
      return guarded([&]() -> OrtStatus* {
        *made = of(self).gpus_.empty() ? nullptr : new Transfer(of(self).gpus_);
        return nullptr;
      });
    };
    IsStreamAware = [](const OrtEpFactory* self) noexcept {
      return !static_cast<const Factory*>(self)->gpus_.empty();
    };
    CreateSyncStreamForDevice = [](OrtEpFactory* self, const OrtMemoryDevice* device,
                                   const OrtKeyValuePairs*,
                                   OrtSyncStreamImpl** made) noexcept -> OrtStatus* {
      return guarded([&] { return of(self).create_stream(device, made); });
    };
  }

 private:
  static Factory& of(OrtEpFactory* self) { return *static_cast<Factory*>(self); }

  OrtStatus* supported(std::span<const OrtHardwareDevice* const> devices,
                       std::span<OrtEpDevice*> made, size_t* number) {
    *number = 0;
    const auto cpu = std::find_if(devices.begin(), devices.end(), is_cpu);
    auto gpu = std::find_if(devices.begin(), devices.end(), is_gpu);
    if (cpu != devices.end() && !made.empty()) {
      if (OrtStatus* status = add(*cpu, "cpu", made[0])) return status;
      *number = 1;
    }
    // ONNX Runtime may list fewer GPUs than the driver, none in most containers: the others stand
    // beside the CPU, and their memory says what they are.
    for (const auto& each : gpus_) {
      const OrtHardwareDevice* const hardware = gpu != devices.end()   ? *gpu
                                                : cpu != devices.end() ? *cpu
                                                                       : nullptr;
      if (hardware == nullptr || *number == made.size()) break;
      OrtEpDevice*& device = made[*number];
      if (OrtStatus* status = add(hardware, each->device_name().c_str(), device)) return status;
      ++*number;
      for (const OrtMemoryInfo* info : {each->memory_info(), each->pinned_info()})
        if (OrtStatus* status = Ort::GetEpApi().EpDevice_AddAllocatorInfo(device, info))
          return status;
      if (gpu != devices.end()) gpu = std::find_if(gpu + 1, devices.end(), is_gpu);
    }
    return nullptr;
  }

  OrtStatus* add(const OrtHardwareDevice* hardware, const char* memory, OrtEpDevice*& made) {
    Ort::KeyValuePairs metadata;
    metadata.Add(kMemoryKey, memory);
    return Ort::GetEpApi().CreateEpDevice(this, hardware, metadata, nullptr, &made);
  }

  OrtStatus* create(std::span<const OrtKeyValuePairs* const> metadata,
                    const OrtSessionOptions* options, const OrtLogger* logger, OrtEp** made) {
    const char* const memory =
        metadata.empty() ? nullptr : Ort::GetApi().GetKeyValue(metadata[0], kMemoryKey);
    auto settings = settings_of(options, memory == nullptr ? "cpu" : memory);
    if (!settings) return to_ort(settings.status(), ORT_INVALID_ARGUMENT);
    std::shared_ptr<Gpu> gpu;
    if (settings->plan.device != "cpu") {
      const auto found = opened(settings->plan.device);
      if (!found) return to_ort(found.status(), ORT_INVALID_ARGUMENT);
      gpu = *found;
    }
    Settings known = *std::move(settings);
    known.spin_can_be_short = spin_can_be_short_;
    *made = new Provider(std::move(known), std::move(gpu), logger);
    return nullptr;
  }

  Result<std::shared_ptr<Gpu>> opened(const std::string& device) {
    for (const auto& each : gpus_)
      if (each->device_name() == device) {
        if (Status status = each->open(); !status) return status;
        return each;
      }
    if (const auto count = device_count(); !count) return count.status();
    return Status(
        "there is no " + device, std::string(kProviderName) + "'s options",
        "there are " + std::to_string(gpus_.size()) + " GPUs; check CUDA_VISIBLE_DEVICES");
  }

  OrtStatus* create_allocator(const OrtMemoryInfo* info, OrtAllocator** made) {
    *made = nullptr;
    if (info == nullptr) return nullptr;
    for (const auto& each : gpus_)
      for (const OrtMemoryInfo* own : {each->memory_info(), each->pinned_info()}) {
        int differs = 0;
        if (OrtStatus* status = Ort::GetApi().CompareMemoryInfo(own, info, &differs)) return status;
        if (differs == 0) *made = new Allocator(*each, own);
      }
    return nullptr;
  }

  OrtStatus* create_stream(const OrtMemoryDevice* device, OrtSyncStreamImpl** made) {
    *made = nullptr;
    const auto place = place_of(device);
    if (!place || place->host || place->ordinal >= gpus_.size()) return nullptr;
    const auto& gpu = gpus_[place->ordinal];
    if (Status status = gpu->open(); !status) return to_ort(status, kGpuFailed);
    auto stream = Stream::create(gpu);
    if (!stream) return to_ort(stream.status(), kGpuFailed);
    *made = (*std::move(stream)).release();
    return nullptr;
  }

  const std::vector<std::shared_ptr<Gpu>> gpus_;  // by ordinal
  const bool spin_can_be_short_;                  // as Settings has it
};

}  // namespace
}  // namespace attacca::ort

extern "C" {

__attribute__((visibility("default"))) OrtStatus* CreateEpFactories(const char*,
                                                                    const OrtApiBase* base,
                                                                    const OrtLogger*,
                                                                    OrtEpFactory** factories,
                                                                    size_t most, size_t* number) {
  const OrtApi* const api = base->GetApi(ORT_API_VERSION);
  if (api == nullptr)
    return base->GetApi(1)->CreateStatus(
        ORT_NOT_IMPLEMENTED, "Attacca needs ONNX Runtime 1.23 or newer: update onnxruntime");
  Ort::InitApi(api);
  return attacca::ort::guarded([&]() -> OrtStatus* {
    if (most == 0)
      return api->CreateStatus(ORT_INVALID_ARGUMENT, "Attacca: no room for its factory");
    factories[0] = new attacca::ort::Factory(base->GetVersionString());
    *number = 1;
    return nullptr;
  });
}

__attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<attacca::ort::Factory*>(factory);
  return nullptr;
}
}
