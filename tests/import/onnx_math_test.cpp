#include "import/onnx_testing.hpp"

namespace attacca::import {
namespace {

TEST(OnnxMath, Relu) {
  EXPECT_EQ(read_node(14, "Relu", {{"M", "4"}}), "relu(x) : f32[M, 4]");
}

}  // namespace
}  // namespace attacca::import
