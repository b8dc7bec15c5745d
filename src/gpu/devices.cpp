#include "gpu/devices.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "fmt/format.h"

namespace attacca::gpu {
namespace {

enum class Origin { Measured, Published };
using enum Origin;

struct Row {
  const char* id;
  const char* name;
  int capability, sm_count, memory_gib, l2_mib, max_shared_bytes;
  double megahertz, memory_gigabytes, half, float8, s8;
  Origin origin;
};

#define DEVICE(...) {__VA_ARGS__},
constexpr Row kDevices[] = {
#include "gpu/devices.def"
};
#undef DEVICE

struct Architecture {
  int capability;
  double half, float8, s8;  // operations a cycle of one multiprocessor
};

#define ARCHITECTURE(...) {__VA_ARGS__},
constexpr Architecture kArchitectures[] = {
#include "gpu/devices.def"
};
#undef ARCHITECTURE

// The parts of its published peaks that an H200 reaches: 4.2 of 4.8 TB/s, 818 of 989 TFLOP/s.
constexpr double kMemoryShare = 0.875, kProductShare = 0.83;

// For devices whose driver does not report them.
constexpr double kUnknownCycles = 1.5e9, kUnknownMemory = 1e12;

DeviceRates reached(DeviceRates peaks) {
  peaks.memory *= kMemoryShare;
  for (double* rate : {&peaks.half, &peaks.float8, &peaks.s8}) *rate *= kProductShare;
  return peaks;
}

DeviceRates rates_of(const Row& row) {
  const DeviceRates rates{.cycles = row.megahertz * 1e6,
                          .memory = row.memory_gigabytes * 1e9,
                          .half = row.half * 1e12,
                          .float8 = row.float8 * 1e12,
                          .s8 = row.s8 * 1e12};
  return row.origin == Published ? reached(rates) : rates;
}

DeviceInfo info_of(const Row& row, std::string name, int capability) {
  return {.ordinal = 0,
          .name = std::move(name),
          .major = capability / 10,
          .minor = capability % 10,
          .sm_count = row.sm_count,
          .memory_bytes = static_cast<size_t>(row.memory_gib) << 30,
          .l2_bytes = row.l2_mib << 20,
          .max_shared_bytes = row.max_shared_bytes,
          .rates = rates_of(row)};
}

// The first row of the latest capability up to this one, else the first row.
const Row& row_before(int capability) {
  const Row* found = kDevices;
  for (const Row& row : kDevices)
    if (row.capability <= capability && row.capability > found->capability) found = &row;
  return *found;
}

constexpr int kOldest = 50, kNewest = 999;  // compute capabilities

// 90 for "sm_90".
std::optional<int> capability_of(std::string_view arch) {
  constexpr std::string_view kPrefix = "sm_";
  if (!arch.starts_with(kPrefix)) return std::nullopt;
  int capability = 0;
  const char* end = arch.data() + arch.size();
  const auto [last, error] = std::from_chars(arch.data() + kPrefix.size(), end, capability);
  if (error != std::errc() || last != end || capability < kOldest || capability > kNewest)
    return std::nullopt;
  return capability;
}

// The row of this capability, else the latest before it, else the first.
const Architecture& architecture(int capability) {
  const auto* after =
      std::find_if(std::begin(kArchitectures) + 1, std::end(kArchitectures),
                   [&](const Architecture& each) { return each.capability > capability; });
  return *(after - 1);
}

// The first whose PTX targets end in "a".
constexpr int kFirstNative = 90;

}  // namespace

std::optional<DeviceInfo> known_device(const std::string& id) {
  for (const Row& row : kDevices)
    if (id == row.id) return info_of(row, row.name, row.capability);
  if (const auto capability = capability_of(id))
    return info_of(row_before(*capability), id, *capability);
  return std::nullopt;
}

std::string known_device_names() {
  std::string names;
  for (const Row& row : kDevices) names += (names.empty() ? "" : ", ") + std::string(row.id);
  return names;
}

DeviceRates rates_of(const DeviceInfo& device, double peak_cycles, double peak_memory) {
  for (const Row& row : kDevices)
    if (device.name == row.name) return rates_of(row);
  const auto& [capability, half, float8, s8] = architecture(device.capability());
  if (peak_cycles <= 0) peak_cycles = kUnknownCycles;
  const double cycles = peak_cycles * device.sm_count;
  return reached({.cycles = peak_cycles,
                  .memory = peak_memory > 0 ? peak_memory : kUnknownMemory,
                  .half = half * cycles,
                  .float8 = float8 * cycles,
                  .s8 = s8 * cycles});
}

std::string plain_arch(int capability) {
  return fmt::format("sm_{}", capability);
}

std::string native_arch(int capability) {
  return plain_arch(capability) + (capability >= kFirstNative ? "a" : "");
}

std::string machine_arch(const std::string& target, int capability) {
  return target.ends_with('a') || target.ends_with('f') ? target : plain_arch(capability);
}

}  // namespace attacca::gpu
