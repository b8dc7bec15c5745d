// The kernels that a toolbox has made, to be taken elsewhere.
#pragma once

#include "launch/bundle/bundle.hpp"
#include "launch/toolbox.hpp"

namespace attacca::launch {

// All of them so far, and those of the bundle that it was opened with. Errors: one that is PTX, for
// want of an assembler.
Result<Bundle> make_bundle(const Toolbox& toolbox);

}  // namespace attacca::launch
