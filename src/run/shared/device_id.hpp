// The device that a caller names.
#pragma once

#include <string>
#include <string_view>

#include "support/error.hpp"

namespace attacca::run {

struct DeviceId {
  bool cuda = false;
  int ordinal = 0;
};

// "cpu", "cuda", "cuda:1". `where`: the argument that the error names.
Result<DeviceId> parse_device(std::string_view text, const std::string& where);
std::string to_string(const DeviceId& device);

}  // namespace attacca::run
