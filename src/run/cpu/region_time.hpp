// How long a region of a plan for the CPU took.
#pragma once

#include "fuse/fuse.hpp"

namespace attacca::run {

struct RegionTime {
  const fuse::Region* region = nullptr;  // of the plan's partition
  double seconds = 0;
};

}  // namespace attacca::run
