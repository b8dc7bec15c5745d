#include "run/shared/target.hpp"

#include "fmt/format.h"

#include "fuse/device_options.hpp"

namespace attacca::run {
namespace {

// The grouped templates are for compute capabilities from this one on.
bool fuses_grouped(const gpu::Device& device) {
  return device.info().capability() >= 80;
}

}  // namespace

Result<Target> Target::of(const DeviceId& id, ir::Mode mode, bool fuse,
                          const std::optional<gpu::DeviceInfo>& described) {
  if (!id.cuda) return cpu(mode, fuse);
  if (described) return cuda(gpu::Device::described(*described), mode, fuse);
  ATTACCA_TRY(gpu::Device device, gpu::Device::open(id.ordinal));
  return cuda(std::move(device), mode, fuse);
}

Result<gpu::DeviceInfo> described_device(const std::string& name, const std::string& where) {
  if (auto known = gpu::known_device(name)) return *std::move(known);
  return fail(fmt::format("no device {} is known", name), where,
              fmt::format("sm_90, or one of {}", gpu::known_device_names()));
}

fuse::FuseOptions Target::fuse_options() const {
  fuse::FuseOptions options =
      device ? fuse::gpu_options(fuses_grouped(*device)) : fuse::cpu_options();
  options.fuse = fuse;
  return options;
}

}  // namespace attacca::run
