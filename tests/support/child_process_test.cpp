// Children that end, that do not end, and that cannot be started.
#include "support/child_process.hpp"

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace attacca {
namespace {

using std::chrono::milliseconds;

pid_t started(void (*work)()) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(7);
  }
  return child;
}

TEST(WaitForChild, TellsHowItEnded) {
  for (const std::optional<milliseconds>& limit :
       {std::optional<milliseconds>(), std::optional(milliseconds(60'000))}) {
    const auto ended = wait_for_child(started([] {}), limit);
    ASSERT_TRUE(ended && *ended);
    EXPECT_EQ(WEXITSTATUS(**ended), 7);
    const auto by_signal = wait_for_child(started([] { raise(SIGTERM); }), limit);
    ASSERT_TRUE(by_signal && *by_signal);
    EXPECT_EQ(WTERMSIG(**by_signal), SIGTERM);
  }
}

TEST(WaitForChild, KillsTheOneThatHangs) {
  const pid_t child = started([] {
    for (;;) pause();
  });
  const auto ended = wait_for_child(child, milliseconds(20));
  ASSERT_TRUE(ended);
  EXPECT_FALSE(*ended);
  EXPECT_EQ(kill(child, 0), -1) << "it was not waited for";
}

TEST(WaitForChild, WaitingForAnUnknownProcessIsAnError) {
  const pid_t child = started([] {});
  ASSERT_TRUE(wait_for_child(child));
  EXPECT_FALSE(wait_for_child(child));
  EXPECT_FALSE(wait_for_child(child, milliseconds(20)));
  EXPECT_FALSE(wait_for_child(-1, milliseconds(20)));
}

}  // namespace
}  // namespace attacca
