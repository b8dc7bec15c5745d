// Which candidate computes a region: what is known, what was measured, or what the model says.
#pragma once

#include "problem/problem.hpp"
#include "run/cuda/decision.hpp"
#include "run/cuda/step.hpp"

namespace attacca::run {

// The decision about a region, which is the problem. Errors: what was to be measured could not be
// (Tuning::Always alone), a user's kernel that cannot be read.
Result<Decision> decide(const StepContext& context, const fuse::Region& region,
                        const problem::Problem& problem);

}  // namespace attacca::run
