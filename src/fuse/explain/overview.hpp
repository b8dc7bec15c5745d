// Graphs of more regions than a picture of their ops can show: one box a region, and parts that
// repeat drawn once.
#pragma once

#include <string>
#include <vector>

#include "fuse/fuse.hpp"

namespace attacca::fuse {

// `times` parts of `length` regions each, one after the other, whose regions compute the same ops
// and shapes: the layers of a transformer. What does not repeat is one part, once.
struct Level {
  size_t first = 0, length = 0, times = 1;
  size_t end() const { return first + length * times; }
};
// The levels of all regions, in their order; each region is in one level.
std::vector<Level> levels(const Partition& partition);

// For Graphviz: a box for each region of each level's first part. Dashed lines lead from one part
// of a level to the next.
std::string overview_dot(const Partition& partition);

}  // namespace attacca::fuse
