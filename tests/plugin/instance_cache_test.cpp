#include "plugin/instance_cache.hpp"

#include "gtest/gtest.h"

namespace attacca::plugin {
namespace {

LayoutKey key_of(int64_t rows, int64_t stride = 1) {
  LayoutKey key;
  key.add(nullptr, {rows}, {stride});
  return key;
}

class Cache : public ::testing::Test {
 protected:
  // The rows of the instance that the cache gives.
  int64_t get(int64_t rows, int64_t stride = 1) {
    const auto found = cache_.get(key_of(rows, stride), [&] {
      ++made_;
      return plan_->prepare({{"M", rows}});
    });
    return found ? found->input_shape(0)[0] : -1;
  }

  Result<Plan> plan_ =
      Plan::compile(*Graph::parse("graph g(x: f32[M]) { return y = relu(x) }"), {});
  InstanceCache cache_;
  int made_ = 0;
};

TEST_F(Cache, GivesTheInstanceOfALayout) {
  EXPECT_EQ(get(2), 2);
  EXPECT_EQ(get(3), 3);
  EXPECT_EQ(get(2), 2);
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(get(2, 4), 2);
  EXPECT_EQ(made_, 3);
}

TEST_F(Cache, DropsTheLeastRecentlyUsed) {
  const auto most = static_cast<int64_t>(InstanceCache::kMostInstances);
  for (int64_t rows = 1; rows <= most; ++rows) get(rows);
  get(1);
  EXPECT_EQ(made_, most);
  get(most + 1);  // in the place of 2
  EXPECT_EQ(made_, most + 1);
  get(1);
  get(3);
  EXPECT_EQ(made_, most + 1);
  EXPECT_EQ(get(2), 2);
  EXPECT_EQ(made_, most + 2);
}

TEST_F(Cache, DoesNotKeepErrors) {
  EXPECT_EQ(get(-1), -1);
  EXPECT_EQ(get(-1), -1);
  EXPECT_EQ(made_, 2);
}

TEST(Shapes, AsText) {
  EXPECT_EQ(text_of({}), "()");
  EXPECT_EQ(text_of({2, 3}), "(2, 3)");
}

}  // namespace
}  // namespace attacca::plugin
