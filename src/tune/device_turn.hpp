// One timing process at a time on a device: kernels that run beside others take longer.
#pragma once

#include <functional>

#include "gpu/driver/device.hpp"

namespace attacca::tune {

// Waits until no other process holds a turn on the device, and holds it until destruction. While it
// waits, it calls `waiting` each second. It is a file lock, which the operating system releases
// when a process dies. Without a private cache folder there is no lock: it does not wait.
class DeviceTurn {
 public:
  DeviceTurn(const gpu::Device& device, const std::function<void()>& waiting);
  ~DeviceTurn();
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;

 private:
  int file_ = -1;
};

}  // namespace attacca::tune
