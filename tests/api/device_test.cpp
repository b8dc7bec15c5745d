// A GPU's memory, streams and events through the public interface, on a stand-in for the driver
// whose device memory is host memory.
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "attacca/attacca.hpp"
#include "gpu/fake_cuda.hpp"
#include "mentions.hpp"

namespace attacca {
namespace {

class ApiDevice : public testing::Test {
 protected:
  ApiDevice() {
    fake<void(int)>("fake_cuda_check_memory")(1);
    fake<void()>("fake_cuda_reset")();
  }
  ~ApiDevice() override { fake<void(int)>("fake_cuda_name_streams")(0); }

  static int live() { return fake<int()>("fake_cuda_live")(); }
  static std::string calls() { return fake<const char*()>("fake_cuda_calls")(); }
};

TEST_F(ApiDevice, OpensWhatTheDriverHas) {
  EXPECT_EQ(*device_count(), 2);
  EXPECT_EQ(Device::open("cuda")->name(), "Fake 0");
  EXPECT_EQ(Device::open("cuda:1")->name(), "Fake 1");
  EXPECT_TRUE(mentions(Device::open("cuda:2").status().text(), "101"));
  EXPECT_TRUE(mentions(Device::open("cpu").status().text(), "the device is no GPU"));
  EXPECT_TRUE(mentions(Device::open("gpu").status().text(), "unknown device gpu"));
}

TEST_F(ApiDevice, CopiesCarryBytes) {
  const auto device = *Device::open("cuda");
  const int before = live();
  std::vector<char> sent(1000), got(1000);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 7);
  void* const stream = *device.create_stream();
  void *const a = *device.allocate(1000), *const b = *device.allocate(1000);
  void* const pinned = *device.allocate_host(1000);
  ASSERT_TRUE(device.upload(a, sent.data(), 1000, stream));
  ASSERT_TRUE(device.copy(b, a, 1000, stream));
  ASSERT_TRUE(device.download(pinned, b, 1000, stream));
  ASSERT_TRUE(device.synchronize(stream));
  std::memcpy(got.data(), pinned, 1000);
  EXPECT_EQ(got, sent);
  EXPECT_FALSE(device.download(got.data(), static_cast<char*>(b) + 500, 1000, stream));
  EXPECT_EQ(live() - before, 4);
  for (void* const memory : {a, b}) ASSERT_TRUE(device.release(memory));
  EXPECT_FALSE(device.release(a));  // a second time
  ASSERT_TRUE(device.release_host(pinned));
  ASSERT_TRUE(device.destroy_stream(stream));
  EXPECT_EQ(live(), before);
}

TEST_F(ApiDevice, NoBytesNeedNoMemory) {
  const auto device = *Device::open("cuda");
  fake<void()>("fake_cuda_reset")();
  EXPECT_EQ(*device.allocate(0), nullptr);
  EXPECT_EQ(*device.allocate_host(0), nullptr);
  EXPECT_TRUE(device.release(nullptr));
  EXPECT_TRUE(device.upload(nullptr, nullptr, 0, nullptr));
  EXPECT_EQ(calls(), "");
}

TEST_F(ApiDevice, WorkIsOnItsStream) {
  const auto device = *Device::open("cuda");
  void *const first = *device.create_stream(), *const second = *device.create_stream();
  void* const event = *device.create_event();
  void* const memory = *device.allocate(8);
  fake<void(int)>("fake_cuda_name_streams")(1);
  fake<void()>("fake_cuda_reset")();
  ASSERT_TRUE(device.upload(memory, "1234567", 8, first));
  ASSERT_TRUE(device.record(event, first));
  ASSERT_TRUE(device.wait(second, event));
  ASSERT_TRUE(device.wait_value(second, static_cast<uint32_t*>(memory), 7));
  ASSERT_TRUE(device.write_value(second, static_cast<uint32_t*>(memory) + 1, 0x41414141));
  char got[8];
  ASSERT_TRUE(device.download(got, memory, 8, second));
  ASSERT_TRUE(device.synchronize_event(event));
  ASSERT_TRUE(device.synchronize());
  EXPECT_EQ(std::string(got, 8), "1234AAAA");
  char want[400];
  std::snprintf(want, sizeof want,
                "cuMemcpyHtoDAsync_v2 8 on %p\ncuEventRecord on %p\ncuStreamWaitEvent on %p\n"
                "cuStreamWaitValue32_v2 7 on %p\n"
                "cuStreamWriteValue32_v2 1094795585 on %p\n"
                "cuMemcpyDtoHAsync_v2 8 on %p\ncuEventSynchronize\ncuCtxSynchronize\n",
                first, first, second, second, second, second);
  std::string made = calls();
  for (size_t at; (at = made.find("cuCtxGetCurrent\n")) != made.npos;) made.erase(at, 16);
  EXPECT_EQ(made, want);
  for (void* const stream : {first, second}) EXPECT_TRUE(device.destroy_stream(stream));
  EXPECT_TRUE(device.destroy_event(event));
  EXPECT_TRUE(device.release(memory));
}

TEST_F(ApiDevice, EveryFailureIsAStatus) {
  const auto device = *Device::open("cuda");
  void* const memory = *device.allocate(8);
  const auto expect_failure = [](const Status& status) {
    EXPECT_TRUE(mentions(status.text(), "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"));
  };
  const auto fail_next = [] { fake<void(int, int)>("fake_cuda_fail")(1, 2); };  // after the context
  fail_next();
  expect_failure(device.allocate(8).status());
  fail_next();
  expect_failure(device.allocate_host(8).status());
  fail_next();
  expect_failure(device.upload(memory, "", 1, nullptr));
  fail_next();
  expect_failure(device.create_stream().status());
  fail_next();
  expect_failure(device.create_event().status());
  fail_next();
  expect_failure(device.synchronize());
  EXPECT_TRUE(mentions(device.upload(nullptr, "", 1, nullptr).text(), "to is NULL"));
  EXPECT_TRUE(mentions(Status(attacca_device_synchronize(nullptr)).text(), "device is NULL"));
  EXPECT_TRUE(mentions(Status(attacca_device_count(nullptr)).text(), "count is NULL"));
  EXPECT_TRUE(device.release(memory));
}

}  // namespace
}  // namespace attacca
