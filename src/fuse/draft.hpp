// Starts regions: at every matrix product, then at elementwise ops that joined no region.
#pragma once

#include "fuse/workspace.hpp"

namespace attacca::fuse {

// Drafts of all matrix products that no region owns, with their tails.
void draft_gemms(Workspace& work);
// Drafts of the elementwise ops that no region owns, with what can join them.
void draft_pointwise(Workspace& work);
// The unfused path: every op a draft of its own.
void draft_alone(Workspace& work);

}  // namespace attacca::fuse
