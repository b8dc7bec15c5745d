// Products of one value by several constants, such as Q, K and V of attention, become one product
// by the constants side by side. What each of them gave is then a slice of the columns, which
// readers see as strides.
#pragma once

#include <vector>

#include "fold/result.hpp"
#include "fuse/fuse.hpp"
#include "fuse/joining/columns.hpp"

namespace attacca::fuse {

struct Joined {
  Partition partition;
  std::vector<fold::Applied> applied;
  // The weights that were joined: who keeps the graph as it was can let go of their memory.
  std::vector<MovedConstant> moved = {};
};

// `partition`: what partition(graph, options) gave. Products are joined if their regions compute
// alike but for constants that are alike for all rows (biases, scales), if nothing else reads their
// weights, and if no slice would have to be copied for its readers. A column's sums have the same
// terms in the same order; the kernel that computes them may be another one.
Joined join_products(Partition partition, const FuseOptions& options);

}  // namespace attacca::fuse
