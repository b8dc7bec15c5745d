// Threads that hold while another one forks, or ends the process.
#include "support/files/process_gate.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <pthread.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "gtest/gtest.h"

namespace attacca {
namespace {

// Time for another thread to reach the place where it waits. Where it is not enough, a test checks
// less, but does not fail.
void give_time() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void wait_until(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::yield();
}

// Forks a child that ends at once, and waits for its end.
void fork_once() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  ASSERT_GT(child, 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(ForkHold, ForkWaitsForItsEnd) {
  std::atomic<bool> ended = false, begun = false;
  std::thread forking;
  {
    const ForkHold hold;
    { const ForkHold nested; }
    forking = std::thread([&] {
      begun = true;
      fork_once();
      EXPECT_TRUE(ended) << "fork() did not wait";
    });
    wait_until(begun);
    give_time();
    ended = true;
  }
  forking.join();
}

// What fork() does between the handlers of process_gate.cpp, whose handlers are registered later.
std::atomic<bool> slowly = false, in_fork = false, behind_fork = false;
void before() {
  if (!slowly) return;
  in_fork = true;
  give_time();
}
void behind() {
  if (slowly) behind_fork = true;
}
__attribute__((constructor(101))) void register_first() {
  pthread_atfork(before, behind, nullptr);
}

TEST(ForkHold, WaitsForAForkThatHasBegun) {
  slowly = true;
  std::thread holding([] {
    wait_until(in_fork);
    const ForkHold hold;
    EXPECT_TRUE(behind_fork) << "it began during fork()";
  });
  fork_once();
  holding.join();
  slowly = in_fork = behind_fork = false;
}

TEST(ForkHold, AThreadForksDuringItsOwn) {
  const ForkHold hold;
  fork_once();
  const pid_t child = fork();
  if (child == 0) {
    const ForkHold in_child;
    fork_once();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(SharedHold, ItsThreadDoesNotWaitForAFork) {
  std::thread forking;
  {
    const ForkHold hold;
    std::atomic<bool> begun = false;
    forking = std::thread([&] {
      begun = true;
      fork_once();
    });
    wait_until(begun);
    give_time();
    std::thread([] {  // which would wait for this thread's hold, as fork() does
      const SharedHold shared;
      const ForkHold own;
      const LibraryHold library;
    })
        .join();
  }
  forking.join();
}

TEST(SharedHold, HoldsOfItsThreadDoNotCount) {
  std::atomic<bool> holds = false, forked = false;
  std::thread helper([&] {
    const SharedHold shared;
    const ForkHold own;
    holds = true;
    wait_until(forked);
  });
  wait_until(holds);
  fork_once();
  forked = true;
  helper.join();
}

void say(const char* text) {
  (void)!write(STDERR_FILENO, text, std::char_traits<char>::length(text));
}

// Whether a hold of the library is refused.
bool is_refused() try {
  const LibraryHold hold;
  return false;
} catch (const std::system_error&) {
  return true;
}

TEST(LibraryHoldDeathTest, ExitWaitsForItsEnd) {
  EXPECT_EXIT(
      {
        wait_at_exit();
        static std::atomic<bool> holds = false;
        std::thread([] {
          const LibraryHold hold;
          holds = true;
          give_time();
          say("ended");
        }).detach();
        wait_until(holds);
        exit(7);
      },
      testing::ExitedWithCode(7), "ended");
}

TEST(LibraryHoldDeathTest, IsRefusedOnceTheProcessEnds) {
  EXPECT_EXIT(
      {
        EXPECT_FALSE(is_refused());
        std::atexit([] { say(is_refused() ? "refused" : "held"); });  // called last
        wait_at_exit();
        exit(7);
      },
      testing::ExitedWithCode(7), "refused");
}

TEST(LibraryHoldDeathTest, IsNotRefusedWithinAnotherHold) {
  EXPECT_EXIT(
      {
        wait_at_exit();
        static std::atomic<bool> holds = false;
        static std::atomic<bool> ending = false;
        std::atexit([] { ending = true; });  // called first
        std::thread([] {
          const ForkHold hold;
          holds = true;
          wait_until(ending);
          give_time();
          say(is_refused() ? "refused" : "held");
        }).detach();
        wait_until(holds);
        exit(7);
      },
      testing::ExitedWithCode(7), "held");
}

}  // namespace
}  // namespace attacca
