// Two accumulators of one A: SwiGLU and its like.
#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

constexpr const char* kHalves = "x: bf16[M, 8], w: bf16[8, 12]";

TEST(Gate, SeparateWeights) {  // the Llama MLP
  EXPECT_EQ(fused("x: bf16[M, 8], w1: bf16[6, 8], w2: bf16[6, 8]",
                  "y = silu(matmul(x, transpose(w1))) * matmul(x, transpose(w2))\nreturn y"),
            "gated y = silu(acc0) * acc1");
}

TEST(Gate, PackedHalves) {
  EXPECT_EQ(fused(kHalves, "h = matmul(x, w)\ny = silu(h[:, 0:6]) * h[:, 6:12]\nreturn y"),
            "gated y = silu(acc0) * acc1");
  EXPECT_EQ(fused(kHalves, "h = matmul(x, w)\ny = swiglu(h[:, 6:12], h[:, 0:6])\nreturn y"),
            "gated y = swiglu(acc0, acc1)");
}

TEST(Gate, AProductOfTheOtherProductIsNoGate) {
  constexpr const char* kSquares = "x: f32[8, 8], w: f32[8, 8]";
  EXPECT_EQ(fused(kSquares, "h = matmul(x, w)\ny = matmul(x, h) * silu(h)\nreturn y"),
            "gemm h = acc, t4 = silu(acc); gemm y = acc * full(t4)");
  EXPECT_EQ(fused(kSquares, "h = matmul(x, w)\ny = matmul(x, h[::-1]) + h\nreturn y"),
            "gemm h = acc; single t3; gemm y = acc + full(h)");
}

TEST(Gate, Interleaved) {
  EXPECT_EQ(fused(kHalves, "h = matmul(x, w)\ny = geglu(h[:, ::2], h[:, 1::2])\nreturn y"),
            "gated y = geglu(acc0, acc1)");
}

TEST(Gate, InterleavedThroughAReshape) {
  EXPECT_EQ(fused(kHalves,
                  "h = reshape(matmul(x, w), [M, 6, 2])\n"
                  "g = reshape(h[:, :, 0:1], [M, 6])\nl = reshape(h[:, :, 1:2], [M, 6])\n"
                  "y = reglu(g, l)\nreturn y"),
            "gated y = reglu(acc0, acc1)");
}

TEST(Gate, ClampedSwigluWithItsConstants) {  // GPT-OSS
  EXPECT_EQ(fused(kHalves,
                  "h = matmul(x, w)\ng = clamp(h[:, ::2], max=6.5)\n"
                  "l = clamp(h[:, 1::2], min=-6.5, max=6.5)\n"
                  "y = g * sigmoid(1.5 * g) * (l + 0.75)\nreturn y"),
            "gated y = u0 * sigmoid(1.5 * u0) * (clamp(acc1, min=-6.5, max=6.5) + 0.75) "
            "where u0 = clamp(acc0, max=6.5)");
}

TEST(Gate, BiasBeforeTheSplit) {
  EXPECT_EQ(fused("x: bf16[M, 8], w: bf16[8, 12], b: bf16[12]",
                  "h = matmul(x, w) + b\ny = swiglu(h[:, ::2], h[:, 1::2])\nreturn y"),
            "gated y = swiglu(acc0 + row(b[0::2]), acc1 + row(b[1::2]))");
}

TEST(Gate, EscapingHalvesFallBackToTheWholeProduct) {
  EXPECT_EQ(fused(kHalves, "h = matmul(x, w)\ny = swiglu(h[:, 0:6], h[:, 6:12])\nreturn y, h"),
            "gemm h = acc; pointwise y = swiglu(full(h[0:]), full(h[6:]))");
}

TEST(Gate, ThreeSlicesAreNoGate) {
  EXPECT_EQ(fused(kHalves, "h = matmul(x, w)\ny = h[:, 0:4] * h[:, 4:8] + h[:, 8:12]\nreturn y"),
            "gemm h = acc; pointwise y = full(h[0:]) * full(h[4:]) + full(h[8:])");
}

TEST(Gate, AnOpThatReadsOtherColumnsIsNoGate) {
  EXPECT_EQ(fused("x: f32[4, 8], w: f32[8, 4]",
                  "h = x @ w; t = h + transpose(h)\ny = t[:, 0:2] * t[:, 2:4]\nreturn y"),
            "gemm h = acc; pointwise t = full(h[0:]) + full(h[0::4]); "
            "pointwise y = full(t[0:]) * full(t[2:])");
  EXPECT_EQ(fused("x: f32[M, 8], w: f32[8, 2]",
                  "h = x @ w; t = h * h[:, 0:1]\ny = t[:, 0:1] * t[:, 1:2]\nreturn y"),
            "gemm h = acc; pointwise t = full(h[0:]) * col(h[0::2]); "
            "pointwise y = col(t[0::2]) * col(t[1::2])");
}

TEST(Gate, OtherShapesOrOtherInputsAreNoPair) {
  EXPECT_EQ(fused("x: bf16[M, 8], z: bf16[M, 8], w1: bf16[8, 6], w2: bf16[8, 6]",
                  "y = silu(matmul(x, w1)) * matmul(z, w2)\nreturn y"),
            "gemm t6 = acc; gemm y = silu(acc) * full(t6)");
  EXPECT_EQ(fused("x: bf16[M, 8], w1: bf16[8, 6], w2: bf16[8, 1]",
                  "y = silu(matmul(x, w1)) * matmul(x, w2)\nreturn y"),
            "gemm t5 = acc; gemm y = silu(acc) * col(t5)");
}

TEST(Gate, HalvesThatOnlyMeetAfterAReduction) {
  EXPECT_EQ(fused("x: bf16[M, 8], w1: bf16[8, 6], w2: bf16[8, 6]",
                  "u = matmul(x, w2)\n"
                  "y = silu(matmul(x, w1)) * (u / reduce_max(u, axes=[1], keepdims=true))\n"
                  "return y"),
            "gemm u = acc, t6 = reduce_max of each row of acc; pointwise t7 = full(u) / col(t6); "
            "gemm y = silu(acc) * full(t7)");
}

}  // namespace
}  // namespace attacca::fuse::testing
