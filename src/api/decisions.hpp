// What an instance decided, for programs.
#pragma once

#include <span>
#include <string>

#include "run/cuda/plan.hpp"

namespace attacca::api {

// [{"candidate", "source", "seconds", "unfused_seconds", "problem", "shape",
//   "trials": [{"candidate", "seconds" or "failed"}], "excluded": [{"template", "reason"}]}]
std::string decisions_json(std::span<const run::Decision> decisions);

}  // namespace attacca::api
