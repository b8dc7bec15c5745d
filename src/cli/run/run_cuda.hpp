// `attacca run --device cuda`.
#pragma once

#include "cli/commands.hpp"
#include "cli/job.hpp"
#include "gpu/driver/device.hpp"

namespace attacca::cli {

// Errors: the device does not exist. Called before anything is made for it.
Result<gpu::Device> open_cuda(int ordinal);

// The fused plan beside the unfused one; the check compares with the op-by-op graph on the device.
Result<int> run_on_cuda(const RunArgs& args, const Job& job, const gpu::DeviceInfo& device);

}  // namespace attacca::cli
