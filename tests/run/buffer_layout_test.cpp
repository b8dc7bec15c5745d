#include "run/cuda/buffer_layout.hpp"

#include <random>

#include "gtest/gtest.h"

namespace attacca::run {
namespace {

size_t round_up(size_t bytes) {
  return (bytes + 255) / 256 * 256;
}

// Empty: no two buffers that live at the same time overlap, all lie inside, aligned, and the whole
// is between what any step needs and what separate buffers would take.
std::string fault(const std::vector<BufferUse>& uses) {
  const BufferLayout layout = lay_out(uses);
  if (layout.offsets.size() != uses.size()) return "a use without an offset";
  size_t separate = 0;
  for (size_t i = 0; i < uses.size(); ++i) {
    separate += round_up(uses[i].bytes);
    if (layout.offsets[i] % 256 != 0) return "a buffer is not aligned";
    if (layout.offsets[i] + uses[i].bytes > layout.bytes) return "a buffer lies outside";
    for (size_t j = 0; j < i; ++j) {
      const bool together =
          uses[i].first_step <= uses[j].last_step && uses[j].first_step <= uses[i].last_step;
      const bool apart = layout.offsets[i] + uses[i].bytes <= layout.offsets[j] ||
                         layout.offsets[j] + uses[j].bytes <= layout.offsets[i];
      if (together && !apart && uses[i].bytes > 0 && uses[j].bytes > 0)
        return "buffers " + std::to_string(j) + " and " + std::to_string(i) + " overlap";
    }
    size_t live = 0;
    for (const BufferUse& other : uses)
      if (other.first_step <= uses[i].first_step && uses[i].first_step <= other.last_step)
        live += other.bytes;
    if (layout.bytes < live) return "less memory than a step needs";
  }
  return layout.bytes > separate ? "more memory than separate buffers" : "";
}

TEST(BufferLayout, SharesMemoryOverTime) {
  EXPECT_EQ(lay_out({}).bytes, 0u);
  // A chain: each value lives for two steps, so two places serve all.
  const BufferLayout chain = lay_out({{1000, 0, 1}, {1000, 1, 2}, {1000, 2, 3}, {1000, 3, 4}});
  EXPECT_EQ(chain.offsets, (std::vector<size_t>{0, 1024, 0, 1024}));
  EXPECT_EQ(chain.bytes, 2024u);
  // The small one fits the gap between the large ones.
  EXPECT_EQ(lay_out({{4096, 0, 0}, {2048, 1, 1}, {100, 0, 1}}).bytes, 4196u);
}

TEST(BufferLayout, HoldsOnRandomUses) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    std::vector<BufferUse> uses(random() % 20);
    for (BufferUse& use : uses) {
      use.bytes = random() % 5 == 0 ? 0 : random() % 3000;
      use.first_step = static_cast<int>(random() % 10);
      use.last_step = use.first_step + static_cast<int>(random() % 5);
    }
    ASSERT_EQ(fault(uses), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace attacca::run
