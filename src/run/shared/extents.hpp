// The extents of a tensor's axes.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace attacca::run {

// The elements of axes begin to end, without end; 1 if there are no axes.
inline int64_t count_of(const std::vector<int64_t>& extents, size_t begin = 0,
                        size_t end = std::numeric_limits<size_t>::max()) {
  int64_t count = 1;
  for (size_t axis = begin; axis < extents.size() && axis < end; ++axis) count *= extents[axis];
  return count;
}

}  // namespace attacca::run
