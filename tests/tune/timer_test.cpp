// The timer with a worker (fake_worker.cpp) that crashes, hangs and prints invalid output: all
// other candidates are still timed, the failing one is named, and limits are kept.
#include "tune/timer.hpp"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "folder.hpp"
#include "launch/candidate.hpp"

namespace attacca::tune {
namespace {

using testing::Folder;
using Clock = std::chrono::steady_clock;

std::string fake_worker() {
  return std::getenv("ATTACCA_FAKE_WORKER");
}

TimingRequest request_for(std::initializer_list<const char*> kinds) {
  TimingRequest request;
  for (const char* kind : kinds)
    request.candidates.push_back({.kind = launch::CandidateKind::Fused, .kernel = kind});
  return request;
}

// "fast 1e-06, crash: why"
std::string told(const std::vector<Trial>& trials) {
  std::string text;
  for (const Trial& trial : trials)
    text += (text.empty() ? "" : ", ") + trial.candidate.kernel +
            (trial.seconds ? fmt::format(" {}", *trial.seconds) : ": " + trial.failure);
  return text;
}

std::string timed(std::initializer_list<const char*> kinds, TimeLimits limits = {20, 10}) {
  return told(Timer({fake_worker()}, limits).time(request_for(kinds)));
}

TEST(Timer, TakesTimesAndFailures) {
  EXPECT_EQ(timed({"fast", "refuse", "slow"}), "fast 1e-06, refuse: not this one, slow 0.001");
  EXPECT_EQ(timed({}), "");
}

TEST(Timer, OneWorkerServesSeveralRequests) {
  const Folder folder;
  Timer timer({fake_worker(), folder.path("log")}, {20, 10});
  EXPECT_EQ(told(timer.time(request_for({"fast"}))), "fast 1e-06");
  EXPECT_EQ(told(timer.time(request_for({"crash", "slow"}))),
            "crash: the timing process was killed by signal 11 (Segmentation fault), slow 0.001");
  EXPECT_EQ(told(timer.time(request_for({"fast"}))), "fast 1e-06");
  EXPECT_EQ(folder.read("log"), "fast \ncrash slow \nslow \nfast \n");
}

class KeptWorkers : public ::testing::Test {
 protected:
  std::string timed(const char* kind, int device = 0, bool twice = false) {
    Timer timer({fake_worker(), folder_.path("log"), folder_.path("started")}, {20, 10});
    TimingRequest request = request_for({kind});
    request.device = device;
    std::string text = told(timer.time(request));
    if (!twice) return text;
    timer.change_worker();
    return text + "; " + told(timer.time(request));
  }

  std::vector<pid_t> started() const {
    std::istringstream text(folder_.read("started"));
    return {std::istream_iterator<pid_t>(text), {}};
  }

  const Folder folder_;
};

TEST_F(KeptWorkers, ServeOneTimerAfterAnother) {
  {
    const KeepWorkers keep;
    EXPECT_EQ(timed("fast"), "fast 1e-06");
    const KeepWorkers again;
    EXPECT_EQ(timed("slow"), "slow 0.001");
    EXPECT_EQ(started().size(), 1u);
  }
  for (const pid_t each : started()) EXPECT_EQ(kill(each, 0), -1) << "it still runs";
  timed("fast"), timed("fast");
  EXPECT_EQ(started().size(), 3u);
}

TEST_F(KeptWorkers, ATimerThatChangesThemHasAnotherEachTime) {
  const KeepWorkers keep;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(timed("fast", 0, true), "fast 1e-06; fast 1e-06");
  EXPECT_EQ(started().size(), 2u);
}

TEST_F(KeptWorkers, ServeTheirOwnDeviceAndEnvironment) {
  const KeepWorkers keep;
  timed("fast"), timed("fast", 1), timed("fast");
  EXPECT_EQ(started().size(), 2u);
  setenv("ATTACCA_CACHE_DIR", folder_.path("cache").c_str(), 1);
  timed("fast");
  unsetenv("ATTACCA_CACHE_DIR");
  EXPECT_EQ(started().size(), 3u);
  timed("fast");
  EXPECT_EQ(started().size(), 3u);
}

TEST_F(KeptWorkers, AreLeftOutOnceTheyFailed) {
  const KeepWorkers keep;
  EXPECT_EQ(timed("error"), "error: no such device");
  EXPECT_EQ(timed("fast"), "fast 1e-06");
  EXPECT_EQ(timed("crash"),
            "crash: the timing process was killed by signal 11 (Segmentation fault)");
  EXPECT_EQ(timed("fast"), "fast 1e-06");
  EXPECT_EQ(started().size(), 3u);
}

TEST_F(KeptWorkers, ServeTheThreadThatStartedThem) {
  const KeepWorkers keep;
  timed("fast");
  std::thread([&] { EXPECT_EQ(timed("fast"), "fast 1e-06"); }).join();
  EXPECT_EQ(started().size(), 2u);
  timed("fast");
  EXPECT_EQ(started().size(), 2u);
}

TEST_F(KeptWorkers, MayDieMeanwhile) {
  const KeepWorkers keep;
  EXPECT_EQ(timed("slow"), "slow 0.001");
  kill(started().back(), SIGKILL);
  EXPECT_EQ(timed("fast"), "fast 1e-06");
}

TEST(Timer, CulpritsAreNamedAndTheOthersTimed) {
  EXPECT_EQ(timed({"slow", "crash", "fast", "quit", "slow"}),
            "slow 0.001, crash: the timing process was killed by signal 11 (Segmentation fault), "
            "fast 1e-06, quit: the timing process exited with 7, slow 0.001");
  EXPECT_EQ(timed({"fast", "deaf"}),
            "fast 1e-06, deaf: the timing process closed its output and did not end");
  EXPECT_EQ(timed({"endless", "fast"}),
            "endless: the timing process wrote a line without an end, fast 1e-06");
}

TEST(Timer, GarbageCostsWhoWroteIt) {
  const std::string text = timed({"fast", "garbage", "slow"});
  EXPECT_EQ(text.find("fast 1e-06, garbage: the timing process wrote no JSON"), 0u) << text;
  EXPECT_NE(text.find("slow 0.001"), std::string::npos) << text;
}

TEST(Timer, HangEndsAtTheSilenceLimit) {
  const auto start = Clock::now();
  EXPECT_EQ(timed({"fast", "hang", "slow"}, {20, 0.3}),
            "fast 1e-06, hang: no sign of life for 0.3 s, slow 0.001");
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

TEST(Timer, DeathBeforeTheFirstWordIsTracedByHalving) {
  EXPECT_EQ(timed({"fast", "slow", "crash_build", "fast", "slow"}),
            "fast 1e-06, slow 0.001, crash_build: the timing process was killed by signal 6 "
            "(Aborted), fast 1e-06, slow 0.001");
  EXPECT_EQ(timed({"crash_build", "crash", "crash_build", "fast"}).substr(0, 61),
            "crash_build: the timing process was killed by signal 6 (Abort");
}

TEST(Timer, TimesGivenBeforeADeathCount) {
  EXPECT_EQ(timed({"fast", "slow", "crash_late"}),
            "fast 1e-06, slow 0.001, crash_late: the timing process was killed by signal 6 "
            "(Aborted)");
}

TEST(Timer, TheWholeTimeIsLimited) {
  const auto start = Clock::now();
  EXPECT_EQ(timed({"fast", "chatter"}, {0.5, 10}),
            "fast: the time limit of the tuning was over, chatter: the time limit of the tuning "
            "was over");
  EXPECT_EQ(timed({"hang", "hang", "hang", "hang"}, {0.5, 0.2}).substr(0, 34),
            "hang: no sign of life for 0.2 s, h");
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
}

TEST(Timer, WaitingForTheDeviceIsNoSilence) {
  EXPECT_EQ(timed({"queue"}, {1, 0.5}),
            "queue: other processes were timing on the device until the time limit of the tuning "
            "was over");
}

TEST(Timer, WhatTheWorkerLeavesOutHasAReason) {
  EXPECT_EQ(timed({"silent", "fast"}), "silent: the timing process left it out, fast 1e-06");
  EXPECT_EQ(timed({"fast", "error"}), "fast 1e-06, error: no such device");
}

TEST(Timer, AWorkerThatDoesNotStart) {
  const auto trials =
      Timer({"/nowhere/attacca", "tune-worker"}, {20, 10}).time(request_for({"fast", "slow"}));
  EXPECT_EQ(told(trials),
            "fast: the timing process could not be run, slow: the timing process could not be run");
}

TEST(Request, RoundTrip) {
  TimingRequest request = request_for({"fast", "slow"});
  request.candidates[1].swizzle = 4;
  request.candidates.emplace_back().algorithm = 3;
  request.problem = {"graph g() {}\n\"quoted\"", {{"M", 3}, {"K", 0}}, ir::Mode::Eager, {{"x", 4}}};
  request.rounds = 9;
  request.device = 2;
  request.pace = Pace::Sustained;
  request.vendor = "/a/libcublasLt.so.13";
  const std::string line = write_request(request);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto read = read_request(line);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(write_request(*read), line);
  EXPECT_EQ(read->candidates, request.candidates);
  EXPECT_EQ(read->problem.symbols, request.problem.symbols);
  EXPECT_EQ(read->problem.alignments, request.problem.alignments);
  EXPECT_EQ(read->problem.graph, request.problem.graph);
  EXPECT_EQ(read->rounds, 9);
  EXPECT_EQ(read->device, 2);
  EXPECT_EQ(read->pace, Pace::Sustained);
  EXPECT_EQ(read->vendor, "/a/libcublasLt.so.13");
}

// Any field taken out, or of another type, is an error and nothing else.
TEST(Request, DamagedOnesAreErrors) {
  const std::string line = write_request(request_for({"fast"}));
  for (const char* key : {"problem", "candidates", "rounds", "device", "pace", "vendor", "graph",
                          "symbols", "mode", "alignments"}) {
    std::string damaged = line;
    const size_t at = damaged.find(std::string("\"") + key + "\"");
    ASSERT_NE(at, std::string::npos) << key;
    damaged[at + 1] = '_';
    const auto read = read_request(damaged);
    ASSERT_FALSE(read) << key;
    EXPECT_EQ(read.error().what, "a timing request lacks a field or has a wrong one") << key;
  }
  for (size_t length = 0; length < line.size(); ++length)
    EXPECT_FALSE(read_request(line.substr(0, length))) << length;
  EXPECT_FALSE(read_request("[]"));
  EXPECT_FALSE(read_request("3"));
}

}  // namespace
}  // namespace attacca::tune
