#include "ir/graph/span.hpp"

#include <algorithm>

#include "gtest/gtest.h"

namespace attacca::ir {
namespace {

// One more than the largest of all elements' places.
int64_t counted(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
                size_t axis = 0) {
  if (axis == shape.size()) return 1;
  int64_t most = 0;
  for (int64_t i = 0; i < shape[axis]; ++i)
    if (const int64_t rest = counted(shape, strides, axis + 1); rest > 0)
      most = std::max(most, i * strides[axis] + rest);
  return most;
}

TEST(Span, ReachesTheLastElement) {
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{2, 3, 4}, {1, 1, 5}, {3, 0, 2}, {0, 1, 1}, {1, 1, 1}})
    for (const std::vector<int64_t>& strides :
         std::vector<std::vector<int64_t>>{{12, 4, 1}, {1, 7, 30}, {0, 0, 0}, {5, 0, 3}})
      EXPECT_EQ(span_of(shape, strides), counted(shape, strides));
  EXPECT_EQ(span_of({}, {}), 1);
}

TEST(Span, OverflowIsNone) {
  EXPECT_EQ(span_of({3}, {INT64_MAX / 2}), INT64_MAX);
  EXPECT_FALSE(span_of({4}, {INT64_MAX / 2}));
  EXPECT_FALSE(span_of({2, 2}, {INT64_MAX - 1, 1}));
  EXPECT_EQ(span_of({0, 4}, {1, INT64_MAX}), 0);
}

}  // namespace
}  // namespace attacca::ir
