// How graphs are cut for each device. A plan's regions, and a region that is read back from text,
// must agree on it.
#pragma once

#include "fuse/fuse.hpp"

namespace attacca::fuse {

inline FuseOptions cpu_options() {
  return {.rows = true, .codes = true, .transposes = true};
}

// `grouped`: whether there are kernels that multiply groups of rows.
inline FuseOptions gpu_options(bool grouped = true) {
  return {.reductions = Reductions::Amax,
          .quantized_operands = true,
          .grouped = grouped,
          .grouped_rows = grouped,
          .indexed_operands = true,
          .grouped_codes = grouped};
}

}  // namespace attacca::fuse
