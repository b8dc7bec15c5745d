// Outputs that do not lie row-major, such as columns of a wider matrix, as regions store them.
#pragma once

#include <optional>
#include <vector>

#include "fuse/fuse.hpp"

namespace attacca::run {

// Of a graph's outputs, in order; none: row-major.
using OutputStrides = std::vector<std::optional<std::vector<ir::Dim>>>;

// Makes the regions store the graph's outputs by these strides. Errors, which name the output: it
// repeats an input, a constant or another output, it is read again, or what computes it writes rows
// one after the other.
Status lay_out_outputs(fuse::Partition& partition, const OutputStrides& strides);

}  // namespace attacca::run
