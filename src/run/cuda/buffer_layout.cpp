#include "run/cuda/buffer_layout.hpp"

#include <algorithm>
#include <numeric>

namespace attacca::run {
namespace {

bool overlap(const BufferUse& a, const BufferUse& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

}  // namespace

BufferLayout lay_out(const std::vector<BufferUse>& uses) {
  BufferLayout layout;
  layout.offsets.assign(uses.size(), 0);
  std::vector<size_t> order(uses.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return uses[a].bytes > uses[b].bytes; });
  std::vector<size_t> placed;  // by offset
  for (const size_t use : order) {
    size_t at = 0;
    for (const size_t other : placed) {
      if (!overlap(uses[use], uses[other])) continue;
      if (at + uses[use].bytes <= layout.offsets[other]) break;
      const size_t end = layout.offsets[other] + uses[other].bytes;
      at = std::max(at, (end + kAlignment - 1) / kAlignment * kAlignment);
    }
    layout.offsets[use] = at;
    layout.bytes = std::max(layout.bytes, at + uses[use].bytes);
    const auto above = std::upper_bound(
        placed.begin(), placed.end(), at,
        [&](size_t offset, size_t other) { return offset < layout.offsets[other]; });
    placed.insert(above, use);
  }
  return layout;
}

}  // namespace attacca::run
