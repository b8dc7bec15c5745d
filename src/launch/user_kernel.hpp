// Kernels that users wrote: alone, with the tail of their region put before their stores, or with
// the tail as a pointwise kernel behind.
#pragma once

#include <string_view>

#include "launch/candidate.hpp"
#include "launch/runnable.hpp"

namespace attacca::launch {

// Candidate::kernel of the kernel that its tail has joined.
inline constexpr std::string_view kUserKernel = "user_kernel";

// Launched with its operands and one output, its result.
Result<std::unique_ptr<Runnable>> make_kernel_alone(const std::shared_ptr<Toolbox>& toolbox,
                                                    const problem::KernelPart& kernel);

// One kernel for both. REQUIRES: a problem with a kernel. Errors: a call that does not fit the
// kernel; what kernel_candidates() says.
Result<std::unique_ptr<Runnable>> make_fused_user_kernel(const std::shared_ptr<Toolbox>& toolbox,
                                                         const problem::Problem& problem);

// The kernel, then `tail`: what tail_of() was prepared to. REQUIRES and errors: as above, without
// those of fusing.
Result<std::unique_ptr<Runnable>> make_unfused_user_kernel(const std::shared_ptr<Toolbox>& toolbox,
                                                           const problem::Problem& problem,
                                                           std::unique_ptr<Runnable> tail);
// The pointwise problem that reads what the kernel stored.
problem::Problem tail_of(const problem::Problem& problem);

// The kernel with its tail where the analysis of its PTX allows that, else why not. Errors: a file
// that cannot be read or compiled.
Result<Candidates> kernel_candidates(UserKernelFiles& files, const gpu::DeviceInfo& device,
                                     const problem::Problem& problem);

}  // namespace attacca::launch
