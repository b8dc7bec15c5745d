// Kernels that users wrote: alone, with the tail of their region put before their stores, or with
// the tail as a pointwise kernel behind.
#pragma once

#include <string_view>

#include "tune/runnable.hpp"

namespace attacca::tune {

// Candidate::kernel of the kernel that its tail has joined.
inline constexpr std::string_view kUserKernel = "user_kernel";

// Pointers: the kernel's operands, then its result.
Result<std::unique_ptr<Runnable>> make_kernel_alone(const std::shared_ptr<Toolbox>& toolbox,
                                                    const KernelPart& kernel);

// REQUIRES: a problem with a kernel. Errors: a call that does not fit the kernel; of the fused
// candidate, what kernel_candidates() says.
Result<std::unique_ptr<Runnable>> make_user_kernel(const std::shared_ptr<Toolbox>& toolbox,
                                                   const Problem& problem,
                                                   const Candidate& candidate);

// The kernel with its tail where the analysis of its PTX allows that, else why not. Errors: a file
// that cannot be read or compiled.
Result<Candidates> kernel_candidates(UserKernelFiles& files, const jit::DeviceInfo& device,
                                     const Problem& problem);

}  // namespace attacca::tune
