// Objects that are lent to one call at a time, by one thread and by several.
#include "support/reused.hpp"

#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace attacca {
namespace {

std::atomic<int> allocated = 0, living = 0;

// Counts its allocations and objects.
struct Lent {
  int uses = 0;  // not atomic: one lease at a time may write it
  std::atomic<bool> held = false;

  Lent() { ++living; }
  Lent(Lent&& from) noexcept : uses(from.uses) { ++living; }
  ~Lent() { --living; }
  static void* operator new(size_t bytes) {
    ++allocated;
    return ::operator new(bytes);
  }
  static void operator delete(void* object) { ::operator delete(object); }
};

Lent not_made() {
  ADD_FAILURE() << "an object was free";
  return {};
}

TEST(Reused, OneCallAfterAnotherAllocatesNothing) {
  Reused<Lent> objects{Lent()};
  const int before = allocated;
  const Lent* first = nullptr;
  for (int i = 0; i < 100; ++i) {
    const auto lease = objects.take(not_made);
    if (i == 0) first = &*lease;
    EXPECT_EQ(&*lease, first);
    EXPECT_EQ(lease->uses++, i) << "it keeps what the last call left in it";
  }
  EXPECT_EQ(allocated, before);
}

TEST(Reused, LeasesAtOnceHaveObjectsOfTheirOwn) {
  Reused<Lent> objects{Lent()};
  const auto make = [] { return Lent(); };
  const int before = allocated;
  {
    const auto a = objects.take(make), b = objects.take(make), c = objects.take(make);
    EXPECT_EQ(std::set({&*a, &*b, &*c}).size(), 3u);
    EXPECT_EQ(allocated, before + 2);
  }
  const auto a = objects.take(not_made), b = objects.take(not_made), c = objects.take(not_made);
  EXPECT_EQ(std::set({&*a, &*b, &*c}).size(), 3u);
}

TEST(Reused, DeletesWhatItKeepsAndWhatItDoesNot) {
  const int before = living;
  {
    Reused<Lent> objects{Lent()};
    const auto make = [] { return Lent(); };
    const auto a = objects.take(make), b = objects.take(make), c = objects.take(make),
               d = objects.take(make), e = objects.take(make), f = objects.take(make);
    EXPECT_EQ(living, before + 6);
  }
  EXPECT_EQ(living, before);
}

TEST(Reused, ThreadsNeverHoldTheSameObject) {
  constexpr int kThreads = 8, kRounds = 20'000;  // more threads than objects are kept
  const int before = living;
  {
    Reused<Lent> objects{Lent()};
    std::atomic<int> held_twice = 0, changed = 0;
    const auto work = [&] {
      for (int i = 0; i < kRounds; ++i) {
        const auto lease = objects.take([] { return Lent(); });
        held_twice += lease->held.exchange(true, std::memory_order_relaxed);
        const int uses = ++lease->uses;
        if (i % 16 == 0) std::this_thread::yield();
        changed += lease->uses != uses;
        lease->held.store(false, std::memory_order_relaxed);
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(work);
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(held_twice, 0);
    EXPECT_EQ(changed, 0);
  }
  EXPECT_EQ(living, before);
}

}  // namespace
}  // namespace attacca
