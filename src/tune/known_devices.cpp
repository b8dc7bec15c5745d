#include "tune/known_devices.hpp"

namespace attacca::tune {
namespace {

struct KnownDevice {
  const char* name;
  const char* full_name;  // as the driver says it
  int major, minor;
  int sm_count;
  size_t memory_bytes;
  int l2_bytes;
  int max_shared_bytes;
};

constexpr size_t kGiB = size_t{1} << 30;
constexpr int kMiB = 1 << 20;

constexpr KnownDevice kDevices[] = {
    {"a100", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 80 * kGiB, 40 * kMiB, 166912},
    {"h100", "NVIDIA H100 80GB HBM3", 9, 0, 132, 80 * kGiB, 50 * kMiB, 232448},
    {"h200", "NVIDIA H200", 9, 0, 132, 141 * kGiB, 60 * kMiB, 232448},
};

}  // namespace

std::optional<gpu::DeviceInfo> known_device(const std::string& name) {
  for (const KnownDevice& each : kDevices)
    if (name == each.name)
      return gpu::DeviceInfo{.ordinal = 0,
                             .name = each.full_name,
                             .major = each.major,
                             .minor = each.minor,
                             .sm_count = each.sm_count,
                             .memory_bytes = each.memory_bytes,
                             .l2_bytes = each.l2_bytes,
                             .max_shared_bytes = each.max_shared_bytes};
  return std::nullopt;
}

std::string known_device_names() {
  std::string names;
  for (const KnownDevice& each : kDevices)
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

}  // namespace attacca::tune
