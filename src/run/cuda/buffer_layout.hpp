// Where intermediate values lie in one block of memory: those that are never alive at the same time
// may share it.
#pragma once

#include <cstddef>
#include <vector>

namespace attacca::run {

inline constexpr size_t kAlignment = 256;  // of every buffer in a workspace

struct BufferUse {
  size_t bytes = 0;
  int first_step = 0, last_step = 0;  // alive from the one to the other, both included
};

struct BufferLayout {
  std::vector<size_t> offsets;  // one a use, multiples of kAlignment
  size_t bytes = 0;
};

// Largest first, each at the lowest offset free during its life.
BufferLayout lay_out(const std::vector<BufferUse>& uses);

}  // namespace attacca::run
