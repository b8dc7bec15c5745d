// The options of a plan, and their names.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpu/devices.hpp"
#include "ir/graph/mode.hpp"
#include "run/cuda/tuning.hpp"
#include "run/shared/device_id.hpp"

namespace attacca::api {

struct Options {
  run::DeviceId device = {};
  ir::Mode mode = ir::Mode::Fp32;
  run::Tuning tuning = run::Tuning::Known;
  double tuning_seconds = 60;
  int threads = 0;
  bool fuse = true;
  bool batch_invariant = false;  // as run::Target's
  // A device that need not be present: instances can be made and saved, but not run. `device` is
  // where the saved plan runs.
  std::optional<gpu::DeviceInfo> described = {};
};

// "cpu", "cuda", "cuda:1".
Result<run::DeviceId> parse_device(std::string_view text);
Result<run::Tuning> parse_tuning(std::string_view text);
Result<ir::Mode> parse_mode(std::string_view text);
// Errors name the value: negative, infinite or NaN.
Status check_seconds(double seconds, std::string_view name, const std::string& where);
Result<int> check_threads(int64_t threads, const std::string& where);
// Errors: the device cannot be used.
Status check_device(const run::DeviceId& device);

}  // namespace attacca::api
