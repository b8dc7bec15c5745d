// Users' kernels: alone, with the tail of their region computed before their stores, or followed by
// the tail as a pointwise kernel.
#pragma once

#include <string_view>

#include "launch/candidate.hpp"
#include "launch/runnable.hpp"

namespace attacca::launch {

// The value of Candidate::kernel for a user's kernel with its tail.
inline constexpr std::string_view kUserKernel = "user_kernel";

// The kernel alone. Its launch takes the operands and one output, the result.
Result<std::unique_ptr<Runnable>> make_kernel_alone(const std::shared_ptr<Toolbox>& toolbox,
                                                    const problem::KernelPart& kernel);

// The kernel and the tail as one kernel. REQUIRES: a problem with a kernel. Errors: the call does
// not fit the kernel; the reasons of kernel_candidates().
Result<std::unique_ptr<Runnable>> make_fused_user_kernel(const std::shared_ptr<Toolbox>& toolbox,
                                                         const problem::Problem& problem);

// The kernel, then `tail`, the prepared problem of tail_of(). REQUIRES and errors: as above, except
// those of fusing.
Result<std::unique_ptr<Runnable>> make_unfused_user_kernel(const std::shared_ptr<Toolbox>& toolbox,
                                                           const problem::Problem& problem,
                                                           std::unique_ptr<Runnable> tail);
// The pointwise problem that reads what the kernel stored.
problem::Problem tail_of(const problem::Problem& problem);

// The kernel with its tail if the analysis of its PTX allows it, else the reason. Errors: the file
// cannot be read or compiled.
Result<Candidates> kernel_candidates(UserKernelFiles& files, const gpu::DeviceInfo& device,
                                     const problem::Problem& problem);

}  // namespace attacca::launch
