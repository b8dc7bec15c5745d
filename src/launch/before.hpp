// Kernels that run before the product, where a candidate does not read an operand as the graph has
// it: legality.hpp says where.
#pragma once

#include <memory>

#include "launch/runnable.hpp"

namespace attacca::launch {

// Gathers the rows of A into the workspace. `product` computes with_gathered_rows(problem).
Result<std::unique_ptr<Runnable>> gather_before(const std::shared_ptr<Toolbox>& toolbox,
                                                const problem::Problem& problem,
                                                std::unique_ptr<Runnable> product);
// Widens weights in codes into the workspace. `product` computes with_widened_weights(problem).
Result<std::unique_ptr<Runnable>> widen_before(const std::shared_ptr<Toolbox>& toolbox,
                                               const problem::Problem& problem,
                                               std::unique_ptr<Runnable> product);
// Writes the numbers of the rows' groups into the workspace. `product` computes `numbered`, which
// is with_numbered_groups(problem).
Result<std::unique_ptr<Runnable>> number_before(const std::shared_ptr<Toolbox>& toolbox,
                                                const problem::Problem& problem,
                                                const problem::Problem& numbered,
                                                std::unique_ptr<Runnable> product);

}  // namespace attacca::launch
