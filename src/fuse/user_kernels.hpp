// Tails of users' kernels. These regions are those that the graph allows. Whether the kernel allows
// them depends on how its PTX uses its output, and the PTX is read when a plan is made for a
// device.
#pragma once

#include "fuse/workspace.hpp"

namespace attacca::fuse {

// Drafts of users' kernels with their tails.
void draft_kernels(Workspace& work);

}  // namespace attacca::fuse
