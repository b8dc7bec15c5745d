// One kernel of a template, GEMM or pointwise, launched for a problem.
#pragma once

#include "launch/candidate.hpp"
#include "launch/runnable.hpp"

namespace attacca::launch {

Result<std::unique_ptr<Runnable>> make_fused(const std::shared_ptr<Toolbox>& toolbox,
                                             const problem::Problem& problem,
                                             const Candidate& candidate);

// The same with a kernel that was loaded already, of the candidate's template: to time machine code
// that was made in another way. `binding`: where place() puts the problem's operands.
Result<std::unique_ptr<Runnable>> make_fused(const std::shared_ptr<Toolbox>& toolbox,
                                             const problem::Problem& problem,
                                             const Candidate& candidate,
                                             const epilogue::Binding& binding,
                                             std::shared_ptr<const Kernel> kernel);

// By the pointwise template that leaves the fewest operands to the context.
// REQUIRES: a problem without products.
Result<std::unique_ptr<Runnable>> make_pointwise(const std::shared_ptr<Toolbox>& toolbox,
                                                 const problem::Problem& problem);

}  // namespace attacca::launch
