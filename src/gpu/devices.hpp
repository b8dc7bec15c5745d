// What a device has and can do: figures by name from devices.def, or of a device that is present.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace attacca::gpu {

// What kernels reach of a whole device.
struct DeviceRates {
  double cycles = 0;  // a second, under load
  double memory = 0;  // bytes a second
  // Floating-point or integer operations a second, of products summed in f32 or s32; 0: the device
  // has no such instruction.
  double half = 0;  // of 16-bit floats
  double float8 = 0;
  double s8 = 0;
};

struct DeviceInfo {
  int ordinal = 0;
  std::string name;  // "NVIDIA H200"
  int major = 0, minor = 0;
  int sm_count = 0;
  size_t memory_bytes = 0;
  int l2_bytes = 0;
  int max_shared_bytes = 0;  // a block's, with opt-in
  DeviceRates rates = {};

  int capability() const { return major * 10 + minor; }  // 90
};

// A row of the table: "h200". nullopt: not in the table.
std::optional<DeviceInfo> known_device(const std::string& id);
// "a100, h100".
std::string known_device_names();

// The rates of a device that is present: of its row, found by the driver's name; without one, of
// its compute capability, these peaks of its clock (cycles a second) and memory (bytes a second),
// and device.sm_count.
DeviceRates rates_of(const DeviceInfo& device, double peak_cycles, double peak_memory);

// The target of PTX that runs on later devices too: "sm_90" of 90.
std::string plain_arch(int capability);

// The target of PTX that one architecture alone runs, with all its instructions: "sm_90a" of 90,
// "sm_89" of 89, for which there is no such target.
std::string native_arch(int capability);

// What PTX of this target is assembled as for such a device: "sm_80" as "sm_89"; PTX for one
// architecture alone, "sm_90a", as it is. Machine code runs on devices of its own major version
// alone.
std::string machine_arch(const std::string& target, int capability);

}  // namespace attacca::gpu
