// What an instance of a plan runs one after the other on the device.
#pragma once

#include <vector>

#include "run/cuda/decision.hpp"
#include "run/cuda/step.hpp"

namespace attacca::run {

// The graph's values behind a problem's operands. An accumulator has no memory, unless a user's
// kernel stores it before its tail.
problem::Operands<ir::Value> values_of(const problem::Problem& problem,
                                       const launch::Candidate& candidate);

// The steps of a region, and how it was decided to compute it.
Result<std::vector<CudaStep>> make_steps(const StepContext& context, const fuse::Region& region,
                                         std::vector<Decision>& decisions);

// The steps of regions that are alike (together.hpp): one, or one for each. They run where the
// first region does.
Result<std::vector<CudaStep>> make_steps_together(const StepContext& context,
                                                  const std::vector<const fuse::Region*>& regions,
                                                  std::vector<Decision>& decisions);

}  // namespace attacca::run
