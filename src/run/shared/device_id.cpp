#include "run/shared/device_id.hpp"

#include <charconv>

#include "fmt/format.h"

namespace attacca::run {

Result<DeviceId> parse_device(std::string_view text, const std::string& where) {
  if (text == "cpu") return DeviceId{};
  if (text == "cuda") return DeviceId{true, 0};
  DeviceId device{true, 0};
  constexpr std::string_view kPrefix = "cuda:";
  const char* end = text.data() + text.size();
  if (text.starts_with(kPrefix) && text.size() > kPrefix.size()) {
    const auto [at, error] = std::from_chars(text.data() + kPrefix.size(), end, device.ordinal);
    if (error == std::errc() && at == end && device.ordinal >= 0) return device;
  }
  return fail(fmt::format("unknown device {}", text), where,
              "one of cpu, cuda, cuda:1, ...; `attacca doctor` lists them");
}

std::string to_string(const DeviceId& device) {
  return device.cuda ? fmt::format("cuda:{}", device.ordinal) : "cpu";
}

}  // namespace attacca::run
