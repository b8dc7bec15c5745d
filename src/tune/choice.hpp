// What was found of the candidates: how long each took, and which is best.
#pragma once

#include <optional>
#include <string>

#include "launch/candidate.hpp"

namespace attacca::tune {

struct ChoiceKey {
  std::string device;   // "NVIDIA H200"
  std::string problem;  // problem_class()
  std::string shape;    // shape_bucket()
  std::string tools;    // Toolbox::identity(): what was measured with others is measured again
  friend bool operator==(const ChoiceKey&, const ChoiceKey&) = default;
};

struct Choice {
  launch::Candidate candidate;
  double seconds = 0;
  double unfused_seconds = 0;
  bool quick = false;  // of a quick tuning (options.hpp): any other measures again
};

struct Trial {
  launch::Candidate candidate;
  std::optional<double> seconds;  // none: it failed
  std::string failure;
  bool final = false;  // timed in the last comparison: only such times compare with each other
};

// A trial's failure where the time was over before its turn.
inline constexpr const char* kTimeWasOver = "the time limit of the tuning was over";

}  // namespace attacca::tune
