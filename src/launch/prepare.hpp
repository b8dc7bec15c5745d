// Makes a candidate something that can be launched.
#pragma once

#include <memory>

#include "launch/candidate.hpp"
#include "launch/runnable.hpp"
#include "launch/toolbox.hpp"

namespace attacca::launch {

// Errors: a candidate that does not fit the problem, a kernel that does not build. A problem
// without products or a user's kernel is one pointwise kernel, whatever the candidate.
Result<std::unique_ptr<Runnable>> prepare(const std::shared_ptr<Toolbox>& toolbox,
                                          const problem::Problem& problem,
                                          const Candidate& candidate);

}  // namespace attacca::launch
