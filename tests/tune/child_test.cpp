#include "tune/child.hpp"

#include <csignal>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "gtest/gtest.h"

#include "folder.hpp"

namespace attacca::tune {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Folder;

Child shell(const std::string& script) {
  auto child = Child::start({"/bin/sh", "-c", script});
  EXPECT_TRUE(child) << to_string(child.error());
  return *std::move(child);
}

std::string hear(Child& child, milliseconds limit = seconds(10)) {
  const auto heard = child.receive(limit);
  if (const auto* ended = std::get_if<Ended>(&heard)) return "ended: " + ended->how;
  if (std::holds_alternative<TimedOut>(heard)) return "timed out";
  return std::get<std::string>(heard);
}

// As in a daemon.
TEST(Child, TalksWhereStandardStreamsAreClosed) {
  for (const bool errors : {false, true}) {
    const pid_t daemon = fork();
    if (daemon == 0) {
      close(STDIN_FILENO);
      close(STDOUT_FILENO);
      if (errors) close(STDERR_FILENO);
      auto child = Child::start({"/bin/sh", "-c", "read x; echo \"got $x\""});
      _exit(child && child->send("one") && hear(*child) == "got one" ? 0 : 1);
    }
    int status = -1;
    waitpid(daemon, &status, 0);
    EXPECT_EQ(status, 0) << errors;
  }
}

TEST(Child, TalksByLines) {
  Child child = shell("while read x; do echo \"got $x\"; done; echo; printf 'a\\nb\\nrest'");
  ASSERT_TRUE(child.send("one"));
  EXPECT_EQ(hear(child), "got one");
  ASSERT_TRUE(child.send(""));
  EXPECT_EQ(hear(child), "got ");
  // A message larger than a socket's buffer.
  const std::string longer(300'000, 'x');
  ASSERT_TRUE(child.send(longer));
  EXPECT_EQ(hear(child), "got " + longer);
}

TEST(Child, LastWordsComeBeforeTheEnd) {
  Child child = shell("printf 'a\\n\\nb\\nrest'; exit 3");
  EXPECT_EQ(hear(child), "a");
  EXPECT_EQ(hear(child), "");
  EXPECT_EQ(hear(child), "b");
  EXPECT_EQ(hear(child), "ended: exited with 3");
}

TEST(Child, SaysHowItEnded) {
  Child killed = shell("kill -9 $$");
  EXPECT_EQ(hear(killed), "ended: was killed by signal 9 (Killed)");
  auto missing = Child::start({"/nowhere/program"});
  ASSERT_TRUE(missing);
  EXPECT_EQ(hear(*missing), "ended: could not be run");
}

TEST(Child, WaitsNoLongerThanTold) {
  Child child = shell("exec sleep 1000");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(hear(child, milliseconds(50)), "timed out");
  EXPECT_EQ(hear(child, milliseconds(0)), "timed out");
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(2));
}

TEST(Child, SendingToOneThatIsGoneIsAnError) {
  Child child = shell("exit 0");
  EXPECT_EQ(hear(child), "ended: exited with 0");
  const Status sent = child.send("hello");
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().what, "the child process is gone or does not listen");
}

TEST(Child, DiesWithItsOwner) {
  const Folder folder;
  pid_t pid = 0;
  {
    Child child = shell("echo $$; exec sleep 1000");
    pid = std::stoi(hear(child));
    EXPECT_EQ(kill(pid, 0), 0);
    Child moved = std::move(child);
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

// Killing a worker also kills the programs that it runs, such as an assembler.
TEST(Child, TakesItsProgramsWithIt) {
  pid_t program = 0;
  {
    Child child = shell("sleep 1000 & echo $!; wait");
    program = std::stoi(hear(child));
    EXPECT_EQ(kill(program, 0), 0);
  }
  const auto runs = [program] {
    std::string pid, name, state;
    std::ifstream status("/proc/" + std::to_string(program) + "/stat");
    return status >> pid >> name >> state && state != "Z" && state != "X";
  };
  for (int tries = 0; tries < 1000 && runs(); ++tries)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_FALSE(runs());
}

}  // namespace
}  // namespace attacca::tune
