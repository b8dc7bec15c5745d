// Processes that share a cache, and processes that are killed in the middle.
#include <cstdio>
#include <fcntl.h>
#include <random>
#include <sys/wait.h>
#include <thread>

#include "gtest/gtest.h"

#include "gpu/cache_testing.hpp"

namespace attacca::gpu {
namespace {

using testing::bytes_of;
using testing::Folder;
using testing::SteppedDisk;
using Origin = Cache::Origin;

// Runs the function in a child process, which ends with _exit: nothing of the parent's is torn
// down.
template <class F>
pid_t in_child(const F& function) {
  const pid_t child = fork();
  if (child == 0) {
    function();
    _exit(0);
  }
  return child;
}

int wait_for(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

bool was_killed(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

// What a key compiles to: long enough that a write takes a while.
std::vector<char> value_of(const std::string& key) {
  std::vector<char> value(50'000 + 7919 * (key.size() % 5));
  std::mt19937_64 random(std::hash<std::string>()(key));
  for (char& byte : value) byte = static_cast<char>(random());
  return value;
}

Result<Cache::Entry> ask(Cache& cache, const std::string& key) {
  return cache.get(key, [&] { return Result<std::vector<char>>(value_of(key)); });
}

// After a kill: nothing damaged, no lock left, right values, and publishing works.
void expect_sound(const std::string& folder, const std::string& key, const std::string& what) {
  const auto start = std::chrono::steady_clock::now();
  Cache cache({.folder = folder});
  EXPECT_EQ(testing::problems(cache), std::vector<std::string>()) << what;
  const auto entry = ask(cache, key);
  ASSERT_TRUE(entry) << what;
  EXPECT_EQ(*entry->bytes, value_of(key)) << what;
  EXPECT_FALSE(cache.warning()) << what;
  Cache next({.folder = folder});
  const auto again = ask(next, key);
  EXPECT_EQ(again->origin, Origin::Disk) << what;
  EXPECT_EQ(*again->bytes, value_of(key)) << what;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << what;
}

int steps_of_a_publish() {
  const Folder folder;
  auto disk = std::make_shared<SteppedDisk>([](int) { return 0; });
  Cache cache({.folder = folder.cache(), .disk = disk});
  EXPECT_TRUE(ask(cache, "key"));
  return disk->steps;
}

TEST(Kill, AtEveryStep) {
  const int steps = steps_of_a_publish();
  EXPECT_GE(steps, 10);
  const Folder folder;
  int kills = 0;
  for (int round = 0; kills < 600; ++round)
    for (int step = 0; step < steps; ++step) {
      const std::string key = "key " + std::to_string(round % 7) + " " + std::to_string(step);
      std::filesystem::remove_all(folder.cache());
      const pid_t child = in_child([&] {
        auto disk = std::make_shared<SteppedDisk>([&](int at) {
          if (at == step) kill(getpid(), SIGKILL);
          return 0;
        });
        disk->written = (round % 11) / 10.0;
        Cache cache({.folder = folder.cache(), .disk = disk});
        (void)ask(cache, key);
      });
      ASSERT_TRUE(was_killed(wait_for(child)));
      ++kills;
      expect_sound(folder.cache(), key, key);
    }
  std::printf("killed %d processes at %d steps\n", kills, steps);
}

TEST(Kill, AtAnyTime) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const Folder folder;
  constexpr int kKeys = 5;
  for (int i = 0; i < 600; ++i) {
    const pid_t child = in_child([&] {
      for (int n = 0;; ++n) {  // publishes, and removes, until it is killed
        const std::string key = "key " + std::to_string(n % kKeys);
        Cache cache({.folder = folder.cache()});
        const auto entry = ask(cache, key);
        if (!entry || *entry->bytes != value_of(key)) _exit(1);
        if (n % 3 == 2) (void)cache.clear();
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    kill(child, SIGKILL);
    ASSERT_TRUE(was_killed(wait_for(child)));
    expect_sound(folder.cache(), "key " + std::to_string(i % kKeys), "kill " + std::to_string(i));
  }
}

TEST(Share, ManyProcessesCompileOnce) {
  const Folder folder;
  const std::string counter = folder.path + "/compiles";
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 64; ++i)
    children.push_back(in_child([&] {
      char byte;
      close(gate[1]);
      (void)!read(gate[0], &byte, 1);  // until all are there
      Cache cache({.folder = folder.cache()});
      const auto entry = cache.get("key", [&]() -> Result<std::vector<char>> {
        const int file = open(counter.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
        (void)!write(file, "x", 1);
        close(file);
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        return value_of("key");
      });
      if (!entry || *entry->bytes != value_of("key")) _exit(1);
    }));
  close(gate[0]);
  close(gate[1]);
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(std::filesystem::file_size(counter), 1u);
}

// The process that compiles is killed while others wait: one of them must compile instead.
TEST(Share, SurvivesTheDeathOfTheCompiler) {
  const Folder folder;
  const pid_t first = in_child([&] {
    Cache cache({.folder = folder.cache()});
    (void)cache.get("key", []() -> Result<std::vector<char>> {
      std::this_thread::sleep_for(std::chrono::seconds(100));
      return fail("never");
    });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::vector<pid_t> others;
  for (int i = 0; i < 8; ++i)
    others.push_back(in_child([&] {
      Cache cache({.folder = folder.cache()});
      const auto entry = ask(cache, "key");
      if (!entry || *entry->bytes != value_of("key")) _exit(1);
    }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto start = std::chrono::steady_clock::now();
  kill(first, SIGKILL);
  EXPECT_TRUE(was_killed(wait_for(first)));
  for (const pid_t child : others) EXPECT_EQ(wait_for(child), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace attacca::gpu
