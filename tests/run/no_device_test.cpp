// A machine without the driver: ATTACCA_LIBCUDA names a file that does not exist.
#include "gtest/gtest.h"

#include "launch/toolbox.hpp"
#include "run/gemm_graph.hpp"
#include "run/pipeline.hpp"

namespace attacca::run {
namespace {

TEST(NoDevice, ErrorsNameTheLibraryAndTheMend) {
  const auto graph = gemm_graph({});
  ASSERT_TRUE(graph) << to_string(graph.error());
  const auto plan = compile(*graph, Target::cuda({}));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().where, "/nowhere/libcuda.so.1");
  EXPECT_EQ(plan.error().fix, "correct or unset ATTACCA_LIBCUDA");
  const auto toolbox = launch::Toolbox::open();
  ASSERT_FALSE(toolbox);
  EXPECT_EQ(toolbox.error().where, "/nowhere/libcuda.so.1");
}

}  // namespace
}  // namespace attacca::run
