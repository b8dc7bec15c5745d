// The pool of threads: every task once, wherever the calling thread is.
#include "run/cpu/thread_pool.hpp"

#include <sched.h>
#include <vector>

#include "gtest/gtest.h"

namespace attacca::run {
namespace {

std::vector<int> processors(const cpu_set_t& set) {
  std::vector<int> all;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(static_cast<size_t>(i), &set)) all.push_back(i);
  return all;
}

// Workers leave the processor that the caller comes to; the caller's own placement stays.
TEST(ThreadPool, RunsEveryTaskWhereverTheCallerIs) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  for (int round = 0; round < 40; ++round)
    for (const int processor : processors(before)) {
      cpu_set_t here;
      CPU_ZERO(&here);
      CPU_SET(static_cast<size_t>(processor), &here);
      if (round % 2 == 0) {
        ASSERT_EQ(sched_setaffinity(0, sizeof(here), &here), 0);
      }
      ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
      std::vector<std::atomic<int>> runs(100);
      ThreadPool::shared().run(4, 100, [&](int64_t task) { ++runs[task]; });
      for (const auto& each : runs) ASSERT_EQ(each, 1);
      cpu_set_t after;
      ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
      ASSERT_TRUE(CPU_EQUAL(&before, &after));
    }
}

TEST(ThreadPool, GivesSmallWorkToOneThread) {
  EXPECT_EQ(worth(8, 100, 1000), 1);
  EXPECT_EQ(worth(8, 3500, 1000), 3);
  EXPECT_EQ(worth(8, 1 << 20, 1000), 8);
  EXPECT_EQ(worth(1, 1 << 20, 1000), 1);
}

}  // namespace
}  // namespace attacca::run
