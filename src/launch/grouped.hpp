// A grouped product alone, for the unfused path: by the template that pads its groups least, or
// where none computes it by a slow kernel.
#pragma once

#include "launch/runnable.hpp"

namespace attacca::launch {

// Product `index` of the problem, stored as `result`, whose offset is 0. Of the addresses of a
// launch, those of the product and the only output count.
Result<std::unique_ptr<Runnable>> make_grouped(const std::shared_ptr<Toolbox>& toolbox,
                                               const problem::Problem& problem, size_t index,
                                               const problem::View& result);

}  // namespace attacca::launch
