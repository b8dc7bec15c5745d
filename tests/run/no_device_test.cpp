// A machine without the driver: ATTACCA_LIBCUDA names a file that does not exist.
#include "gtest/gtest.h"

#include "launch/toolbox.hpp"
#include "run/gemm_graph.hpp"
#include "run/pipeline.hpp"

namespace attacca::run {
namespace {

TEST(NoDevice, ErrorsNameTheLibraryAndTheFix) {
  const auto target = Target::of({.cuda = true});
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().where, "/nowhere/libcuda.so.1");
  EXPECT_EQ(target.error().fix, "correct or unset ATTACCA_LIBCUDA");
  const auto toolbox = launch::Toolbox::open();
  ASSERT_FALSE(toolbox);
  EXPECT_EQ(toolbox.error().where, "/nowhere/libcuda.so.1");
}

}  // namespace
}  // namespace attacca::run
