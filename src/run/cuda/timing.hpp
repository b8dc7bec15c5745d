// Times instances.
#pragma once

#include <vector>

#include "ir/interpret/interpreter.hpp"
#include "run/cuda/plan.hpp"

namespace attacca::run {

// The seconds of a launch: for each instance a list with one number for each round. Launches are
// recorded in CUDA graphs that use copies of the tensors in turn, so many that the L2 cache cannot
// hold them (8 at most). The instances take turns.
// REQUIRES: instances of one graph's shapes, on the plan's device.
Result<std::vector<std::vector<double>>> time_instances(
    const CudaPlan& plan, const ir::Bindings& inputs,
    const std::vector<std::shared_ptr<const CudaInstance>>& instances, int rounds);

// One list a round, after a round that is not timed.
Result<std::vector<std::vector<RegionTime>>> time_regions(const CudaPlan& plan,
                                                          const ir::Bindings& inputs,
                                                          const CudaInstance& instance, int rounds);

}  // namespace attacca::run
