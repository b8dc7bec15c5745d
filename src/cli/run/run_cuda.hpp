// `attacca run --device cuda`.
#pragma once

#include "cli/commands.hpp"
#include "cli/job.hpp"
#include "run/shared/target.hpp"

namespace attacca::cli {

// The fused plan beside the unfused one; the check compares with the op-by-op graph on the device.
// REQUIRES: a target with a GPU.
Result<int> run_on_cuda(const RunArgs& args, const Job& job, run::Target target);

}  // namespace attacca::cli
