// A draft's expression as an epilogue.
#pragma once

#include "fuse/workspace.hpp"

namespace attacca::fuse {

// `nodes`: the draft's members, ascending; `outputs`: those that go to memory. Reorders the draft's
// products as the expression reads them.
epilogue::Epilogue emit_epilogue(const Workspace& work, Draft& draft,
                                 const std::vector<ir::Value>& nodes,
                                 const std::vector<ir::Value>& outputs);

}  // namespace attacca::fuse
