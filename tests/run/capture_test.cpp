// cuBLASLt's handle outlives plans: its end would break a capture into a CUDA graph.
#include <cstdlib>
#include <dlfcn.h>

#include "gtest/gtest.h"

#include "launch/cublaslt.hpp"

namespace attacca::launch {
namespace {

int handles() {
  void* const library = dlopen(std::getenv("ATTACCA_LIBCUBLASLT"), RTLD_NOW);
  return reinterpret_cast<int (*)()>(dlsym(library, "fake_cublaslt_handles"))();
}

TEST(VendorHandle, OutlivesItsLastOwner) {
  const auto device = gpu::Device::open();
  ASSERT_TRUE(device) << device.error().what;
  const auto stream = gpu::Stream::create(*device);
  ASSERT_TRUE(stream);
  auto library = CublasLt::open(*device);
  ASSERT_TRUE(library) << library.error().what;
  const auto* const opened = library->get();
  EXPECT_EQ(handles(), 1);
  const auto graph = gpu::GraphExec::capture(*device, stream->get(), [&]() -> Status {
    library->reset();
    return {};
  });
  EXPECT_TRUE(graph) << graph.error().what;
  EXPECT_EQ(handles(), 1);
  const auto again = CublasLt::open(*device);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->get(), opened);
  EXPECT_EQ(handles(), 1);
  // The capture would have been broken, and the stand-in tells.
  const auto broken =
      gpu::GraphExec::capture(*device, stream->get(), [&] { return device->synchronize(); });
  EXPECT_FALSE(broken);
}

}  // namespace
}  // namespace attacca::launch
