// libattacca_ort.so: what ONNX Runtime calls first, RegisterExecutionProviderLibrary's functions.
#include <memory>

#include "attacca/attacca.hpp"
#include "ort/api.hpp"
#include "ort/provider.hpp"
#include "ort/settings.hpp"
#include "ort/status.hpp"

namespace attacca::ort {
namespace {

constexpr char kVendor[] = "Attacca";

class Factory : public OrtEpFactory {
 public:
  Factory() : OrtEpFactory{} {
    ort_version_supported = ORT_API_VERSION;
    GetName = [](const OrtEpFactory*) noexcept { return kProviderName; };
    GetVendor = [](const OrtEpFactory*) noexcept { return kVendor; };
    GetVendorId = [](const OrtEpFactory*) noexcept { return uint32_t{0}; };
    GetVersion = [](const OrtEpFactory*) noexcept { return attacca_version(); };
    GetSupportedDevices = [](OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                             size_t count, OrtEpDevice** made, size_t most,
                             size_t* number) noexcept -> OrtStatus* {
      return guarded([&] { return supported(self, {devices, count}, {made, most}, number); });
    };
    CreateEp = [](OrtEpFactory*, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*,
                  size_t, const OrtSessionOptions* options, const OrtLogger* logger,
                  OrtEp** made) noexcept -> OrtStatus* {
      return guarded([&]() -> OrtStatus* {
        auto settings = settings_of(options);
        if (!settings) return to_ort(settings.status(), ORT_INVALID_ARGUMENT);
        *made = new Provider(*std::move(settings), logger);
        return nullptr;
      });
    };
    ReleaseEp = [](OrtEpFactory*, OrtEp* each) noexcept { delete static_cast<Provider*>(each); };
    // The CPU's own memory is used, and no streams.
    CreateAllocator = [](OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                         OrtAllocator** made) noexcept -> OrtStatus* {
      *made = nullptr;
      return nullptr;
    };
    ReleaseAllocator = [](OrtEpFactory*, OrtAllocator*) noexcept {};
    CreateDataTransfer = [](OrtEpFactory*, OrtDataTransferImpl** made) noexcept -> OrtStatus* {
      *made = nullptr;
      return nullptr;
    };
    IsStreamAware = [](const OrtEpFactory*) noexcept { return false; };
  }

 private:
  static OrtStatus* supported(OrtEpFactory* self, std::span<const OrtHardwareDevice* const> devices,
                              std::span<OrtEpDevice*> made, size_t* number) {
    *number = 0;
    for (const OrtHardwareDevice* device : devices) {
      if (*number == made.size()) break;
      if (Ort::GetApi().HardwareDevice_Type(device) != OrtHardwareDeviceType_CPU) continue;
      if (OrtStatus* status =
              Ort::GetEpApi().CreateEpDevice(self, device, nullptr, nullptr, &made[*number]))
        return status;
      ++*number;
    }
    return nullptr;
  }
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
    factories[0] = new attacca::ort::Factory;
    *number = 1;
    return nullptr;
  });
}

__attribute__((visibility("default"))) OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) {
  delete static_cast<attacca::ort::Factory*>(factory);
  return nullptr;
}
}
