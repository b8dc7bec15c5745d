// A problem computed by one kernel of a template, GEMM or pointwise.
#pragma once

#include "launch/candidate.hpp"
#include "launch/runnable.hpp"

namespace attacca::launch {

// Errors: as resolve(), where the candidate has no binding; a kernel that does not build.
Result<std::unique_ptr<Runnable>> make_fused(const std::shared_ptr<Toolbox>& toolbox,
                                             const problem::Problem& problem,
                                             const Candidate& candidate);

// make_fused() with a loaded kernel of the candidate's template, to time machine code that was made
// in another way. REQUIRES: a candidate with a binding.
std::unique_ptr<Runnable> make_fused(const std::shared_ptr<Toolbox>& toolbox,
                                     const problem::Problem& problem, const Candidate& candidate,
                                     std::shared_ptr<const Kernel> kernel);

// Uses the pointwise template that leaves the fewest operands to the context.
// REQUIRES: a problem without products.
Result<std::unique_ptr<Runnable>> make_pointwise(const std::shared_ptr<Toolbox>& toolbox,
                                                 const problem::Problem& problem);

// The kernel that computes the problem, or so many like it in one launch, which
// may await a word for each (ptx/splice/several.hpp). `capability`: the
// device's; 0: the template's own.
gpu::KernelRequest kernel_request(const problem::Problem& problem,
                                  const templates::Template& kernel,
                                  const epilogue::Binding& binding, int capability,
                                  size_t problems = 1, bool has_signals = false);

}  // namespace attacca::launch
