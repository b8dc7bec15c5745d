// Instances under the stopwatch.
#pragma once

#include <vector>

#include "ir/interpret/interpreter.hpp"
#include "run/cuda/plan.hpp"

namespace attacca::run {

// Seconds of a launch, one list an instance, one number a round. Launches are recorded in CUDA
// graphs that walk copies of the tensors, so many that the L2 cache cannot hold them (8 at most);
// the instances take turns.
// REQUIRES: instances of one graph's shapes, on the plan's device.
Result<std::vector<std::vector<double>>> time_instances(
    const CudaPlan& plan, const ir::Bindings& inputs,
    const std::vector<std::shared_ptr<const CudaInstance>>& instances, int rounds);

}  // namespace attacca::run
