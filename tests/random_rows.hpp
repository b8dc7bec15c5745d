// Random operands that say which rows are read, and by which matrix they are multiplied.
#pragma once

#include <cstdint>
#include <random>

#include "ir/graph/tensor.hpp"

namespace attacca::testing {

// An index of `count` names of any of `rows` rows, from the first on or back from the last one.
inline ir::Tensor random_index(ir::DType dtype, int count, int rows, uint32_t seed) {
  std::mt19937 random(seed);
  ir::Tensor index = *ir::Tensor::make(dtype, {count});
  for (int i = 0; i < count; ++i)
    index.set_integer(i, static_cast<int64_t>(random() % static_cast<uint32_t>(2 * rows)) - rows);
  return index;
}

// The ends of groups of so many rows in all, of one of four kinds: in any order and of any size,
// with empty groups and rows behind the last end, all rows in few groups, groups alike.
inline ir::Tensor random_ends(int rows, int groups, uint32_t kind, uint32_t seed) {
  std::mt19937 random(seed);
  ir::Tensor ends = *ir::Tensor::make(ir::DType::S32, {groups});
  int64_t end = 0;
  for (int group = 0; group < groups; ++group) {
    const auto any = static_cast<int64_t>(random() % static_cast<uint32_t>(rows + 1));
    if (kind == 0) end = any + static_cast<int64_t>(random() % 200) - 100;
    if (kind == 1 && random() % 3 == 0) end += any / 3;
    if (kind == 2) end = group < groups / 2 ? 0 : rows;
    if (kind == 3) end = int64_t{rows} * (group + 1) / groups;
    ends.set_integer(group, end);
  }
  return ends;
}

}  // namespace attacca::testing
