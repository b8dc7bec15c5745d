// The figures of a device: by its name from devices.def, or of a device that is present.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace attacca::gpu {

// The rates that kernels reach on a whole device.
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

// A row of the table, "h200", or an architecture, "sm_90". An architecture has the figures of the
// table's first device of the latest compute capability up to its own. nullopt: neither.
std::optional<DeviceInfo> known_device(const std::string& id);
// "a100, h100".
std::string known_device_names();

// The rates of a device that is present: those of its row, found by the driver's name. Without a
// row they follow from its compute capability, device.sm_count, and these peaks of its clock
// (cycles a second) and memory (bytes a second).
DeviceRates rates_of(const DeviceInfo& device, double peak_cycles, double peak_memory);

// The target of PTX that runs on later devices too: "sm_90" for 90.
std::string plain_arch(int capability);

// The target of PTX that runs on one architecture only and may use all its instructions: "sm_90a"
// for 90. "sm_89" for 89, which has no such target.
std::string native_arch(int capability);

// The target for which PTX of `target` is assembled for such a device: "sm_89" for "sm_80". PTX for
// one architecture only keeps its target: "sm_90a". Machine code runs only on devices of its own
// major version.
std::string machine_arch(const std::string& target, int capability);

}  // namespace attacca::gpu
