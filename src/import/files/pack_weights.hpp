// Packs a checkpoint's quantised weights, and unpacks them to the original tensors.
//
// A tensor NAME is a weight if the file has its scales, as NAME_scale, NAME_scales or NAME.scale.
// Its zero points, if it has any, are NAME_zero_point or NAME.zero_point. Packed it keeps its name,
// is U8, and the file's metadata says under "attacca.unpack.NAME" how a graph unpacks it and where
// the scales were.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/packed/packed.hpp"

namespace attacca::import {

struct PackOptions {
  std::vector<std::string> only;  // patterns of weights' names as a shell's; empty: all
  int bits = 8;                   // of s8 and u8 codes: 8, or 4 where a byte holds two
};

// A weight that was packed or unpacked.
struct PackedWeight {
  std::string name;
  ir::PackedLayout layout;
  uint64_t bytes_before = 0, bytes_after = 0;
};

// The progress, from 0 to 1, and the current tensor.
using PackProgress = std::function<void(double done, const std::string& name)>;

// All other tensors are copied. Errors: nothing to do, a weight that cannot be packed; then no file
// is written.
Result<std::vector<PackedWeight>> pack_file(const std::string& from, const std::string& to,
                                            const PackOptions& options,
                                            const PackProgress& progress);
Result<std::vector<PackedWeight>> unpack_file(const std::string& from, const std::string& to,
                                              const PackProgress& progress);

}  // namespace attacca::import
