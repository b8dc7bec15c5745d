// Devices by name, so that decisions can be shown where there is none.
#pragma once

#include <optional>
#include <string>

#include "gpu/driver/device.hpp"

namespace attacca::tune {

// "h200", "h100"; nullopt: not in the table.
std::optional<gpu::DeviceInfo> known_device(const std::string& name);
// "h100, h200".
std::string known_device_names();

}  // namespace attacca::tune
