// Outputs that are not row-major, such as columns of a wider matrix.
#pragma once

#include <optional>
#include <vector>

#include "fuse/fuse.hpp"

namespace attacca::run {

// The strides of a graph's outputs, in order; none: row-major.
using OutputStrides = std::vector<std::optional<std::vector<ir::Dim>>>;

// Makes the regions store the graph's outputs by these strides. Errors, which name the output: it
// repeats an input, a constant or another output; another region reads it; or its kernel writes
// only row-major results.
Status lay_out_outputs(fuse::Partition& partition, const OutputStrides& strides);

}  // namespace attacca::run
