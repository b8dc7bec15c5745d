// What an instance of a plan runs one after the other on the device.
#pragma once

#include <vector>

#include "run/cuda/decision.hpp"
#include "run/cuda/step.hpp"

namespace attacca::run {

// The steps of a region, and how it was decided to compute it.
Result<std::vector<CudaStep>> make_steps(const StepContext& context, const fuse::Region& region,
                                         std::vector<Decision>& decisions);

}  // namespace attacca::run
