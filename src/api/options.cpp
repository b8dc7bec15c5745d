#include "api/options.hpp"

#include <cmath>

#include "fmt/format.h"

#include "api/names.hpp"
#include "launch/toolbox.hpp"

namespace attacca::api {

Result<run::DeviceId> parse_device(std::string_view text) {
  return run::parse_device(text, "device");
}

Result<run::Tuning> parse_tuning(std::string_view text) {
  if (const auto tuning = run::parse_tuning(text)) return *tuning;
  return fail(fmt::format("unknown tuning {}", text), "tuning",
              suggest(text, {std::begin(run::kTunings), std::end(run::kTunings)}));
}

Result<ir::Mode> parse_mode(std::string_view text) {
  if (const auto mode = ir::parse_mode(text)) return *mode;
  return fail(fmt::format("unknown mode {}", text), "mode", suggest(text, {"fp32", "eager"}));
}

Status check_seconds(double seconds, std::string_view name, const std::string& where) {
  if (seconds >= 0 && !std::isinf(seconds)) return {};
  return fail(fmt::format("{} is {}", name, seconds), where,
              "give finite seconds >= 0; 0 is the default");
}

Result<int> check_threads(int64_t threads, const std::string& where) {
  constexpr int64_t kMost = 4096;
  if (threads >= 0 && threads <= kMost) return static_cast<int>(threads);
  return fail(fmt::format("{} threads", threads), where,
              fmt::format("give 0, for all cores, to {}", kMost));
}

Status check_device(const run::DeviceId& device) {
  if (!device.cuda) return {};
  const auto toolbox = launch::Toolbox::open(device.ordinal);
  if (!toolbox) return tl::make_unexpected(toolbox.error());
  return {};
}

}  // namespace attacca::api
