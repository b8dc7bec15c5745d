// The unfused path, a candidate like any other: the vendor library's products into the workspace,
// perhaps with the bias and activation that it computes itself, then the rest of the tail as one
// pointwise kernel.
#pragma once

#include "launch/candidate.hpp"
#include "launch/runnable.hpp"

namespace attacca::launch {

// Operands that the library does not take as they lie, or whose dtypes it does not multiply, are
// copied to dense ones of a dtype that holds them exactly first.
Result<std::unique_ptr<Runnable>> make_unfused(const std::shared_ptr<Toolbox>& toolbox,
                                               const problem::Problem& problem,
                                               const Candidate& candidate);

// Every candidate of the unfused path, the library's own preference of each kind first.
Result<std::vector<Candidate>> unfused_candidates(const std::shared_ptr<Toolbox>& toolbox,
                                                  const problem::Problem& problem);

}  // namespace attacca::launch
