#include "launch/bundle/bundle.hpp"

#include <algorithm>

#include "fmt/format.h"

namespace attacca::launch {
namespace {

constexpr const char* kFix =
    "make the bundle again for this machine (`attacca bundle`), or install NVRTC, an assembler and "
    "the templates here";

std::string cuda(int version) {
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

void merge(Bundle& into, Bundle more) {
  into.templates.merge(more.templates);
  into.kernels.merge(more.kernels);
  into.driver = std::max(into.driver, more.driver);
}

Status check_device(const Bundle& bundle, const gpu::Device& device) {
  const gpu::DeviceInfo& info = device.info();
  if (bundle.library != ATTACCA_VERSION)
    return fail(fmt::format("the kernels were made by Attacca {}, this is {}", bundle.library,
                            ATTACCA_VERSION),
                "bundle", kFix);
  if (bundle.capability != info.capability())
    return fail(fmt::format("the kernels are for {} of compute capability {}.{}, {} has {}.{}",
                            bundle.device, bundle.capability / 10, bundle.capability % 10,
                            info.name, info.major, info.minor),
                "bundle", kFix);
  if (device.is_here() && device.driver().version() < bundle.driver)
    return fail(fmt::format("the kernels were assembled by {} and need a driver of {} or newer, "
                            "this one is of {}",
                            bundle.assembler, cuda(bundle.driver), cuda(device.driver().version())),
                "bundle", "update the NVIDIA driver, or make the bundle with an older ptxas");
  return {};
}

Status check_builders(const Bundle& bundle, const std::string& builders) {
  if (bundle.builders == builders) return {};
  return fail(
      fmt::format("the kernels go with templates' builders of {}, those here are of {}",
                  bundle.builders, builders),
      "bundle",
      std::string("install the libattacca_templates.so of the Attacca that made the bundle, or ") +
          kFix);
}

}  // namespace attacca::launch
