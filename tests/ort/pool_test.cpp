// Which blocks of memory a stream may get, on a stand-in for the driver whose device memory is host
// memory.
#include "ort/cuda/pool.hpp"

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "gpu/fake_cuda.hpp"

namespace attacca::ort {
namespace {

constexpr size_t kBytes = 1000;

class PoolTest : public testing::TestWithParam<Memory> {
 protected:
  void* make(size_t bytes, void* stream) {
    const auto made = pool_.allocate(bytes, stream);
    return made ? *made : nullptr;
  }
  static int blocks() { return fake<int()>("fake_cuda_blocks")(); }

  const Device device_ = *Device::open("cuda");
  void* const a_ = *device_.create_stream();
  void* const b_ = *device_.create_stream();
  Pool pool_{device_, GetParam()};
};

TEST_P(PoolTest, GivesABlockAgain) {
  void* const block = make(kBytes, a_);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 256, 0u);
  EXPECT_NE(make(kBytes, a_), block);
  pool_.give_back(block);
  EXPECT_EQ(make(kBytes - 100, b_), block);  // no work was on its stream
}

TEST_P(PoolTest, NoBytesAreNoBlock) {
  EXPECT_EQ(*pool_.allocate(0, a_), nullptr);
  pool_.give_back(nullptr);
}

TEST_P(PoolTest, WorkOnAStreamKeepsABlockForIt) {
  pool_.busy(a_);
  void* const block = make(kBytes, a_);
  pool_.give_back(block);
  EXPECT_NE(make(kBytes, b_), block);
  EXPECT_NE(make(kBytes, nullptr), block);
  EXPECT_EQ(make(kBytes, a_), block);
  pool_.give_back(block);
  pool_.idle(a_);
  EXPECT_EQ(make(kBytes, b_), block);
}

TEST_P(PoolTest, OfNoStreamWaitsForAllThatAreBusy) {
  pool_.busy(a_);
  pool_.busy(b_);
  void* const block = make(kBytes, nullptr);
  pool_.give_back(block);
  EXPECT_NE(make(kBytes, a_), block);
  pool_.idle(b_);
  EXPECT_NE(make(kBytes, nullptr), block);
  EXPECT_EQ(make(kBytes, a_), block);
  pool_.give_back(block);  // it is a's now
  pool_.idle(a_);
  EXPECT_EQ(make(kBytes, nullptr), block);
}

TEST_P(PoolTest, WorkThatCameLaterDoesNotMatter) {
  void* const block = make(kBytes, nullptr);
  pool_.give_back(block);
  pool_.busy(a_);
  EXPECT_EQ(make(kBytes, b_), block);
}

TEST_P(PoolTest, DoesNotGiveWhatIsMuchTooLarge) {
  void* const block = make(100 * kBytes, a_);
  pool_.give_back(block);
  EXPECT_NE(make(kBytes, a_), block);
  EXPECT_EQ(make(60 * kBytes, a_), block);
}

TEST_P(PoolTest, ADestroyedPoolHasGivenAllBack) {
  const int before = blocks();
  {
    Pool pool(device_, GetParam());
    for (const size_t bytes : {1, 1000, 1000000}) ASSERT_TRUE(pool.allocate(bytes, a_));
    pool.give_back(*pool.allocate(70, b_));
    EXPECT_EQ(blocks(), before + 4);
  }
  EXPECT_EQ(blocks(), before);
}

// Blocks are filled and read while they are owned: none is given to two owners.
TEST_P(PoolTest, IsForAnyNumberOfThreads) {
  const auto work = [&](char id) {
    void* const stream = *device_.create_stream();
    std::minstd_rand random(static_cast<unsigned>(id));
    for (int round = 0; round < 2000; ++round) {
      pool_.busy(stream);
      const size_t bytes = 1 + random() % 5000;
      auto* const block = static_cast<char*>(make(bytes, random() % 2 ? stream : nullptr));
      std::fill_n(block, bytes, id);
      std::this_thread::yield();
      ASSERT_TRUE(std::all_of(block, block + bytes, [&](char each) { return each == id; }));
      pool_.give_back(block);
      if (random() % 4 == 0) pool_.idle(stream);
    }
    pool_.idle(stream);
  };
  std::vector<std::thread> threads;
  for (const char id : {1, 2, 3, 4}) threads.emplace_back(work, id);
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Each, PoolTest, testing::Values(Memory::Device, Memory::PinnedHost));

TEST(Pool, GivesFreeBlocksBackWhereTheDeviceHasNoMore) {
  const auto device = *Device::open("cuda");
  const auto limit = fake<size_t(size_t)>("fake_cuda_limit");
  Pool pool(device, Memory::Device);
  limit(limit(SIZE_MAX) + (size_t{12} << 20));
  void* const small = *pool.allocate(size_t{8} << 20, nullptr);
  EXPECT_FALSE(pool.allocate(size_t{10} << 20, nullptr));
  pool.give_back(small);
  EXPECT_TRUE(pool.allocate(size_t{10} << 20, nullptr));
  EXPECT_FALSE(pool.allocate(size_t{8} << 20, nullptr));
  limit(SIZE_MAX);
}

}  // namespace
}  // namespace attacca::ort
