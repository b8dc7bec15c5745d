// The result of measuring candidates: how long each took, and which is best.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include "launch/candidate.hpp"

namespace attacca::tune {

struct ChoiceKey {
  std::string device;   // "NVIDIA H200"
  std::string problem;  // problem_class()
  std::string shape;    // shape_bucket()
  std::string tools;    // Toolbox::identity(); a choice of other tools is not used
  friend bool operator==(const ChoiceKey&, const ChoiceKey&) = default;
};

struct Choice {
  launch::Candidate candidate;
  double seconds = 0;
  double unfused_seconds = 0;
  bool quick = false;  // of a quick tuning (options.hpp): any other measures again
};

// Whether a tuning can have measured these seconds of the chosen candidate and of the unfused path;
// 0 for the latter: it was not timed.
inline bool are_times(double seconds, double unfused_seconds) {
  return std::isfinite(seconds) && seconds > 0 && std::isfinite(unfused_seconds) &&
         unfused_seconds >= 0;
}

struct Trial {
  launch::Candidate candidate;
  std::optional<double> seconds;  // none: it failed
  std::string failure;
  bool final = false;  // timed in the last comparison; only such times can be compared
};

// The failures of a trial that was not reached within the time limit.
inline constexpr const char* kTimeWasOver = "the time limit of the tuning was over";
inline constexpr const char* kDeviceWasBusy =
    "other processes were timing on the device until the time limit of the tuning was over";

}  // namespace attacca::tune
