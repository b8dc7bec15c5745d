// How a graph is cut for a GPU: what a plan's regions, and a region that is read back from text,
// must agree on.
#pragma once

#include "fuse/fuse.hpp"

namespace attacca::fuse {

// `grouped`: whether there are kernels that multiply groups of rows.
inline FuseOptions gpu_options(bool grouped = true) {
  return {.fuse = true,
          .reductions = Reductions::Amax,
          .packed = true,
          .grouped = grouped,
          .grouped_rows = grouped,
          .indexed_operands = true,
          .grouped_codes = grouped};
}

}  // namespace attacca::fuse
