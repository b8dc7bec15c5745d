// Makes regions of drafts: decides which values go to memory, which views disappear, and which ops
// run alone.
#pragma once

#include "fuse/workspace.hpp"

namespace attacca::fuse {

// Drafts as regions, everything else as Single, in an order in which they can run. `graph`: the
// workspace's.
Partition assemble(Workspace& work, ir::Graph graph);

}  // namespace attacca::fuse
