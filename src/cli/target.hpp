// The target that a command's arguments name.
#pragma once

#include <optional>
#include <string>

#include "gpu/devices.hpp"
#include "run/shared/target.hpp"

namespace attacca::cli {

// The device of gpu/devices.def that --as names.
Result<gpu::DeviceInfo> described_device(const std::string& as);

// Of --device, --mode and, of commands that have it, --as. Errors: an unknown name, a GPU that is
// not there.
Result<run::Target> target_of(const std::string& device, const std::string& mode, bool fuse = true,
                              const std::optional<std::string>& as = {});

}  // namespace attacca::cli
