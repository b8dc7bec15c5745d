// The owners of device memory, modules, events and so on, with a stand-in for the driver
// (ATTACCA_LIBCUDA).
#include "gpu/driver/device.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <vector>

#include "gtest/gtest.h"

#include "gpu/fake_cuda.hpp"

namespace attacca::gpu {
namespace {

#define FAKE(name) fake<decltype(name)>(#name)

extern "C" {
int cuCtxGetCurrent(void** context);
int cuCtxSetCurrent(void* context);
}

// No calls, and no context of an earlier test.
void begin_anew() {
  FAKE(cuCtxSetCurrent)(nullptr);
  FAKE(fake_cuda_reset)();
}

struct DeviceTest : testing::Test {
  void SetUp() override { begin_anew(); }
};

// Everything once: memory there and back, a launch, events, a graph.
Status use_everything() {
  ATTACCA_TRY(const Device device, Device::open(1));
  const Current current(device);
  ATTACCA_TRY_VOID(current.entered());
  ATTACCA_TRY(DeviceMemory memory, DeviceMemory::allocate(device, 16));
  ATTACCA_TRY(PinnedMemory pinned, PinnedMemory::allocate(device, 16));
  ATTACCA_TRY(Stream stream, Stream::create(device));
  ATTACCA_TRY_VOID(memory.copy_from("attacca", 8, stream.get(), 8));
  ATTACCA_TRY_VOID(memory.copy_to(pinned.pointer(), 8, stream.get(), 8));
  ATTACCA_TRY_VOID(stream.synchronize());
  EXPECT_STREQ(static_cast<const char*>(pinned.pointer()), "attacca");
  ATTACCA_TRY_VOID(memory.fill(7));
  ATTACCA_TRY(Event start, Event::create(device));
  ATTACCA_TRY(Event end, Event::create(device));
  ATTACCA_TRY(const Module module, Module::load(device, std::string_view("cubin")));
  ATTACCA_TRY(const Function kernel, module.function("kernel"));
  ATTACCA_TRY_VOID(kernel.allow_shared_bytes(100000));
  ATTACCA_TRY(const int registers, kernel.registers());
  EXPECT_EQ(registers, 168);
  int parameter = 42;
  void* parameters[] = {&parameter};
  ATTACCA_TRY(const GraphExec graph, GraphExec::capture(device, stream.get(), [&] {
                return kernel.launch({{3, 2, 1}, {128, 1, 1}, 100000}, stream.get(), parameters);
              }));
  ATTACCA_TRY_VOID(kernel.launch({{5, 1, 1}, {64, 1, 1}, 0, true}, stream.get(), parameters));
  ATTACCA_TRY_VOID(start.record(stream.get()));
  ATTACCA_TRY_VOID(graph.launch(stream.get()));
  ATTACCA_TRY_VOID(end.record(stream.get()));
  ATTACCA_TRY_VOID(stream.wait(end));
  ATTACCA_TRY_VOID(end.synchronize());
  ATTACCA_TRY(const float milliseconds, end.since(start));
  EXPECT_EQ(milliseconds, 1.5f);
  return device.synchronize();
}

TEST_F(DeviceTest, Describes) {
  const auto device = Device::open(1);
  ASSERT_TRUE(device) << to_string(device.error());
  EXPECT_EQ(device->info().name, "Fake 1");
  EXPECT_EQ(device->info().capability(), 90);
  EXPECT_EQ(device->info().sm_count, 132);
  EXPECT_NEAR(device->info().rates.memory, 4.3e12, 1e11);  // 87.5 % of 2 x 3201 MHz x 768 bytes
  EXPECT_EQ(device->driver().version(), 13000);
  EXPECT_EQ(*Device::count(), 2);
}

TEST_F(DeviceTest, UsesEverythingAndGivesItBack) {
  const Status status = use_everything();
  ASSERT_TRUE(status) << to_string(status.error());
  EXPECT_EQ(FAKE(fake_cuda_live)(), 0);
  EXPECT_NE(std::string(FAKE(fake_cuda_calls)()).find("cuLaunchKernel 3,2,1 128,1,1 100000 42\n"),
            std::string::npos);
  EXPECT_NE(std::string(FAKE(fake_cuda_calls)()).find("cuLaunchKernelEx 5,1,1 64,1,1 dependent"),
            std::string::npos);
}

// If any call of the driver fails, the error names it, and nothing leaks.
TEST_F(DeviceTest, EveryCallMayFail) {
  ASSERT_TRUE(use_everything());
  const int calls = FAKE(fake_cuda_call_count)();
  ASSERT_GT(calls, 30);
  const std::string_view gives_back[] = {
      "cuMemFree_v2",   "cuMemFreeHost",  "cuStreamDestroy_v2", "cuEventDestroy_v2",
      "cuModuleUnload", "cuGraphDestroy", "cuGraphExecDestroy", "cuDevicePrimaryCtxRelease_v2"};
  for (int i = 0; i < calls; ++i) {
    begin_anew();
    const int live = FAKE(fake_cuda_live)();
    FAKE(fake_cuda_fail)(i, 2);
    const Status status = use_everything();
    std::string log = FAKE(fake_cuda_calls)();
    for (int skip = 0; skip < i; ++skip) log.erase(0, log.find('\n') + 1);
    const std::string failed = log.substr(0, log.find_first_of(" \n"));
    bool is_destructor = false;
    for (const std::string_view name : gives_back) is_destructor |= failed == name;
    if (status) {
      // Destructors ignore failures, also those of changing the context.
      EXPECT_TRUE(is_destructor || failed.starts_with("cuCtx")) << failed;
      continue;
    }
    EXPECT_EQ(status.error().what, failed + ": CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
    EXPECT_EQ(FAKE(fake_cuda_live)(), live) << failed;
  }
}

TEST_F(DeviceTest, ErrorsSayWhere) {
  const auto missing = Device::open(5);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().what, "cuDeviceGet: unknown error (101): no description");
  EXPECT_NE(missing.error().fix.find("nvidia-smi"), std::string::npos);
  const auto device = Device::open();
  const auto module = Module::load(*device, std::string_view("bad"));
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().where, "ptxas: line 7: bad");
  const auto good = Module::load(*device, std::string_view("good"));
  const auto function = good->function("missing");
  ASSERT_FALSE(function);
  EXPECT_EQ(function.error().where, "missing");
}

// Whoever shares the thread, such as PyTorch, finds its own device.
TEST_F(DeviceTest, CallsLeaveTheCurrentContextAsItWas) {
  const auto first = Device::open(0), second = Device::open(1);
  ASSERT_TRUE(first && second);
  void* current = nullptr;
  const auto is_current = [&] {
    FAKE(cuCtxGetCurrent)(&current);
    return current;
  };
  FAKE(cuCtxSetCurrent)(nullptr);
  { const auto memory = DeviceMemory::allocate(*second, 16); }
  EXPECT_EQ(is_current(), nullptr);
  { const auto memory = DeviceMemory::allocate(*first, 16); }
  EXPECT_EQ(is_current(), first->context());  // as the CUDA runtime would
  {
    const auto memory = DeviceMemory::allocate(*second, 16);
    EXPECT_EQ(is_current(), first->context());
    {
      const Current entered(*second);
      ASSERT_TRUE(entered.entered());
      EXPECT_EQ(is_current(), second->context());
      EXPECT_TRUE(second->synchronize());
      EXPECT_EQ(is_current(), second->context());
    }
    EXPECT_EQ(is_current(), first->context());
  }
  EXPECT_EQ(is_current(), first->context());
  const Current nowhere(Device::described({}));
  EXPECT_FALSE(nowhere.entered());
}

TEST_F(DeviceTest, NothingIsAllocatedForNoBytes) {
  const auto device = Device::open();
  auto memory = DeviceMemory::allocate(*device, 0);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->pointer(), nullptr);
  EXPECT_TRUE(memory->fill(1));
  EXPECT_TRUE(memory->copy_from(nullptr, 0));
}

TEST_F(DeviceTest, FailedCaptureIsEnded) {
  const auto device = Device::open();
  const int live = FAKE(fake_cuda_live)();
  {
    const auto stream = Stream::create(*device);
    const auto graph =
        GraphExec::capture(*device, stream->get(), [] { return Status(fail("no launch")); });
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().what, "no launch");
  }
  EXPECT_EQ(FAKE(fake_cuda_live)(), live);
  EXPECT_NE(std::string(FAKE(fake_cuda_calls)()).find("cuStreamEndCapture"), std::string::npos);
}

// As where a plan is destroyed, or first called, while PyTorch captures.
TEST_F(DeviceTest, OwnersDoNotBreakACapture) {
  const auto device = Device::open();
  const auto stream = Stream::create(*device);
  ASSERT_TRUE(stream);
  auto memory = DeviceMemory::allocate(*device, 16);
  auto pinned = PinnedMemory::allocate(*device, 16);
  auto module = Module::load(*device, std::string_view("cubin"));
  ASSERT_TRUE(memory && pinned && module);
  const int live = FAKE(fake_cuda_live)();
  const auto graph = GraphExec::capture(*device, stream->get(), [&]() -> Status {
    *memory = DeviceMemory();
    *pinned = PinnedMemory();
    ATTACCA_TRY(*module, Module::load(*device, std::string_view("cubin")));
    ATTACCA_TRY(const DeviceMemory more, DeviceMemory::allocate(*device, 16));
    ATTACCA_TRY(const PinnedMemory other, PinnedMemory::allocate(*device, 16));
    return {};
  });
  ASSERT_TRUE(graph) << graph.error().what;
  EXPECT_EQ(FAKE(fake_cuda_live)(), live - 2 + 1);
  const Driver& driver = device->driver();
  const auto broken = GraphExec::capture(*device, stream->get(), [&] {
    DevicePointer pointer = 0;
    return device->call(driver.mem_alloc, &pointer, size_t{16});
  });
  ASSERT_FALSE(broken);
}

}  // namespace
}  // namespace attacca::gpu
