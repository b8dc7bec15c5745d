// A process that forks, or ends, while plans run in its threads.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "gtest/gtest.h"

#include "attacca/attacca.hpp"

namespace {

constexpr int kThreads = 4;
constexpr unsigned kSecondsOfAChild = 20;

attacca::Plan plan_of(int64_t k, int64_t n) {
  const std::string text = "graph g(x: f32[M, " + std::to_string(k) + "], w: f32[" +
                           std::to_string(k) + ", " + std::to_string(n) + "], b: f32[" +
                           std::to_string(n) + "]) { return y = relu(x @ w + b) }";
  return *attacca::Plan::compile(*attacca::Graph::parse(text), {.threads = kThreads});
}

// One run with its own data: whether the result equals a plain loop's.
bool runs_right(const attacca::Plan& plan, int64_t m, int64_t k, int64_t n) {
  std::vector<float> x(m * k), w(k * n), b(n), y(m * n, -1.0f);
  for (int64_t i = 0; i < m * k; ++i) x[i] = static_cast<float>(i % 7 - 3);
  for (int64_t i = 0; i < k * n; ++i) w[i] = static_cast<float>(i % 5 - 2);
  for (int64_t i = 0; i < n; ++i) b[i] = static_cast<float>(i % 3);
  const auto instance = plan.prepare({{"M", m}});
  if (!instance) return false;
  std::vector<std::byte> workspace(instance->workspace_bytes() + 256);
  void* const aligned =
      workspace.data() + 256 - reinterpret_cast<uintptr_t>(workspace.data()) % 256;
  if (!instance->run({x.data(), w.data(), b.data()}, {y.data()},
                     {aligned, instance->workspace_bytes()}))
    return false;
  for (const int64_t i : {int64_t{0}, m / 2, m - 1})
    for (int64_t j = 0; j < n; ++j) {
      float sum = b[j];
      for (int64_t l = 0; l < k; ++l) sum += x[i * k + l] * w[l * n + j];
      if (y[i * n + j] != std::fmax(sum, 0.0f)) return false;  // small integers: exact
    }
  return true;
}

// How a child process that runs this ends: "0" or another exit code, "signal 14" where it hangs.
std::string end_of_child(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kSecondsOfAChild);
    work();
    _exit(9);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return "lost";
  return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : std::to_string(WEXITSTATUS(status));
}

// Threads that run old and new plans with changing sizes.
class Runners {
 public:
  Runners() {
    for (int seed = 0; seed < kThreads; ++seed)
      threads_.emplace_back([this, seed] {
        const attacca::Plan plan = plan_of(64, 64);
        for (int64_t i = seed; !stopped_; ++i) {
          const int64_t k = 16 + i % 31;
          const bool right = i % 4 == 0 ? runs_right(plan_of(k, 48), 80, k, 48)
                                        : runs_right(plan, 1 + i % 200, 64, 64);
          if (right) ++runs;
          if (!right && !stopped_) ++wrong;
        }
      });
    while (runs < 4 * kThreads && wrong == 0) std::this_thread::yield();
  }
  ~Runners() {
    stopped_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  std::atomic<int> runs = 0, wrong = 0;

 private:
  std::atomic<bool> stopped_ = false;
  std::vector<std::thread> threads_;
};

// The first plan of a process makes tables that all plans share. A child must find them complete.
// This test comes first, so that no table exists yet.
TEST(Fork, InTheMiddleOfTheFirstCompilation) {
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(end_of_child([&] {
                std::thread first([] { (void)plan_of(32, 32); });
                usleep(static_cast<useconds_t>(i * 300));
                const std::string end =
                    end_of_child([] { exit(runs_right(plan_of(40, 40), 10, 40, 40) ? 0 : 1); });
                first.join();
                exit(end == "0" ? 0 : 1);
              }),
              "0")
        << i;
}

TEST(Fork, ChildrenOfAThreadedProcessExit) {
  const attacca::Plan plan = plan_of(512, 256);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(runs_right(plan, 300, 512, 256));
    ASSERT_EQ(end_of_child([] { exit(0); }), "0") << i;
  }
}

TEST(Fork, ChildrenOfAThreadedProcessRun) {
  const attacca::Plan plan = plan_of(512, 256);
  ASSERT_TRUE(runs_right(plan, 300, 512, 256));
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(end_of_child([&] {
                const bool old_runs = runs_right(plan, 300 + i, 512, 256);
                exit(old_runs && runs_right(plan_of(60 + i, 40), 300, 60 + i, 40) ? 0 : 1);
              }),
              "0")
        << i;
}

TEST(Fork, ChildrenHaveChildren) {
  const attacca::Plan plan = plan_of(64, 64);
  ASSERT_TRUE(runs_right(plan, 300, 64, 64));
  EXPECT_EQ(
      end_of_child([&] {
        if (!runs_right(plan, 301, 64, 64)) exit(1);
        exit(end_of_child([&] { exit(runs_right(plan, 302, 64, 64) ? 0 : 1); }) == "0" ? 0 : 2);
      }),
      "0");
}

TEST(Fork, InTheMiddleOfOtherThreadsRuns) {
  const attacca::Plan plan = plan_of(64, 64);
  Runners runners;
  for (int i = 0; i < 60; ++i)
    ASSERT_EQ(end_of_child([&] {
                const int64_t k = 100 + i;
                const bool old_runs = runs_right(plan, 250 + i, 64, 64);
                exit(old_runs && runs_right(plan_of(k, 48), 90, k, 48) ? 0 : 1);
              }),
              "0")
        << i;
  EXPECT_EQ(runners.wrong, 0);
}

TEST(Exit, WhileOtherThreadsRun) {
  for (int i = 0; i < 25; ++i)
    ASSERT_EQ(end_of_child([&] {
                auto* runners = new Runners;
                usleep(static_cast<useconds_t>(i * 531 % 10'000));
                exit(runners->wrong == 0 ? 0 : 1);
              }),
              "0")
        << i;
}

// A static object of the program that ends its threads itself still can.
TEST(Exit, WaitsForThreadsThatAStaticObjectJoins) {
  EXPECT_EQ(end_of_child([] {
              static Runners runners;
              exit(0);
            }),
            "0");
}

}  // namespace
