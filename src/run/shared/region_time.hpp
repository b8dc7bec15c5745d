// How long a part of a plan took in one run.
#pragma once

#include "fuse/fuse.hpp"

namespace attacca::run {

// A region may take several steps, each with its own time.
struct RegionTime {
  const fuse::Region* region = nullptr;  // of the plan; of several in a launch, the first
  double begin = 0;                      // in seconds, since the run's first step began
  double seconds = 0;
};

}  // namespace attacca::run
