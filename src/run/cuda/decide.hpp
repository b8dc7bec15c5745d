// Chooses the candidate that computes a region: a known one, a measured one, or the model's.
#pragma once

#include "problem/problem.hpp"
#include "run/cuda/decision.hpp"
#include "run/cuda/step.hpp"

namespace attacca::run {

// `problem`: the region with its sizes. Errors: a measurement that fails, for Tuning::Always only;
// a user's kernel that cannot be read.
Result<Decision> decide(const StepContext& context, const fuse::Region& region,
                        const problem::Problem& problem);

}  // namespace attacca::run
