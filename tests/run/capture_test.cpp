// What plans make and destroy does not break a capture into a CUDA graph, on the stand-ins for the
// driver and for cuBLASLt.
#include <cstdlib>
#include <dlfcn.h>

#include "gtest/gtest.h"

#include "ir/text/text.hpp"
#include "launch/cublaslt.hpp"
#include "run/cuda/places.hpp"

namespace attacca::launch {
namespace {

int handles() {
  void* const library = dlopen(std::getenv("ATTACCA_LIBCUBLASLT"), RTLD_NOW);
  return reinterpret_cast<int (*)()>(dlsym(library, "fake_cublaslt_handles"))();
}

// Its end would break a capture.
TEST(Captures, VendorsHandleOutlivesItsLastOwner) {
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

TEST(Captures, ConstantsAreUploadedDuringOne) {
  const auto device = gpu::Device::open();
  ASSERT_TRUE(device);
  const auto stream = gpu::Stream::create(*device);
  const auto graph = ir::parse_graph("graph g(x: f32[M]) { return x * 0.5 }");
  ASSERT_TRUE(stream && graph);
  const auto captured = gpu::GraphExec::capture(*device, stream->get(), [&]() -> Status {
    ATTACCA_TRY(const run::FixedPlaces places, run::FixedPlaces::make(*device, *graph));
    return {};
  });
  EXPECT_TRUE(captured) << captured.error().what;
}

}  // namespace
}  // namespace attacca::launch
