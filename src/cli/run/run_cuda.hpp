// `attacca run --device cuda`.
#pragma once

#include "cli/commands.hpp"
#include "cli/job.hpp"

namespace attacca::cli {

// An error if the device does not exist; called before anything is made for it.
Status check_cuda(int ordinal);

// The fused plan beside the unfused one; the check compares with the op-by-op graph on the device.
Result<int> run_on_cuda(const RunArgs& args, const Job& job, int ordinal);

}  // namespace attacca::cli
