// Finds what a kernel does with its output's address, and every reason not to fuse into its stores.
#pragma once

#include "ptx/analysis/analysis.hpp"
#include "ptx/analysis/dataflow.hpp"

namespace attacca::ptx {

// Goes over the solved flow once. Fills everything but the output's place, which it reads.
void check_kernel(const Module& module, const Function& entry, const Dataflow& flow,
                  Analysis& analysis);

}  // namespace attacca::ptx
