// How many multiprocessors a kernel's clusters fill, on the stand-in for the driver: 132
// multiprocessors of two blocks each, and 30 clusters at once whatever their size.
#include "gtest/gtest.h"

#include "launch/toolbox.hpp"

namespace attacca::launch {
namespace {

int multiprocessors(int cluster_m, int cluster_n, int cluster_k) {
  templates::Template form;
  form.cluster_m = cluster_m;
  form.cluster_n = cluster_n;
  form.cluster_k = cluster_k;
  form.threads = 384;
  const auto device = gpu::Device::open(0);
  EXPECT_TRUE(device) << (device ? "" : to_string(device.error()));
  if (!device) return 0;
  const std::string image = "an image";
  const auto kernel = load_kernel(*device, image, "kernel", &form);
  EXPECT_TRUE(kernel) << (kernel ? "" : to_string(kernel.error()));
  return kernel ? kernel->multiprocessors : 0;
}

TEST(Clusters, OfOneOrTwoBlocksFillTheDevice) {
  EXPECT_EQ(multiprocessors(1, 1, 1), 132);
  EXPECT_EQ(multiprocessors(1, 2, 1), 132);
}

TEST(Clusters, OfMoreBlocksFillWhatTheDriverSays) {
  EXPECT_EQ(multiprocessors(1, 1, 4), 60);  // 120 blocks
  EXPECT_EQ(multiprocessors(1, 2, 2), 60);
  EXPECT_EQ(multiprocessors(1, 3, 1), 45);
  EXPECT_EQ(multiprocessors(2, 2, 4), 132);  // 480 blocks: never more than there are
}

}  // namespace
}  // namespace attacca::launch
