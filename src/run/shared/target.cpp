#include "run/shared/target.hpp"

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

fuse::FuseOptions Target::fuse_options() const {
  fuse::FuseOptions options =
      device ? fuse::gpu_options(fuses_grouped(*device)) : fuse::cpu_options();
  options.fuse = fuse;
  return options;
}

}  // namespace attacca::run
