// Grows a region greedily: the users of its members join where they can.
#pragma once

#include "fuse/workspace.hpp"

namespace attacca::fuse {

// Adds every node that can join, in graph order, then operands that only the region reads. Records
// a reason for each node that cannot join.
void grow(Workspace& work, Draft& draft);

}  // namespace attacca::fuse
