// Reductions, gathers and other ops that are kernels of their own.
#pragma once

#include <vector>

#include "run/cuda/step.hpp"

namespace attacca::run {

// Errors: an op, dtype or layout that no kernel on this device computes.
Result<std::vector<CudaStep>> make_single_steps(const StepContext& context,
                                                const fuse::Region& region);

}  // namespace attacca::run
