// One product and what follows it.
#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

TEST(Gemm, BareProductIsAnIdentityEpilogue) {
  EXPECT_EQ(fused("x: f32[M, 8], w: f32[8, 4]", "y = matmul(x, w)\nreturn y"), "gemm y = acc");
}

TEST(Gemm, BiasActivationResidual) {
  EXPECT_EQ(fused("x: bf16[M, 8], w: bf16[8, 4], b: bf16[4], r: bf16[M, 4]",
                  "y = silu(matmul(x, w) + b) * r\nreturn y"),
            "gemm y = silu(acc + row(b)) * full(r)");
}

}  // namespace
}  // namespace attacca::fuse::testing
