// Regions that go on behind a transpose of their results, where kernels store with any strides.
#include "fuse_testing.hpp"
#include "mentions.hpp"

namespace attacca::fuse::testing {
namespace {

Partition behind(const std::string& parameters, const std::string& body) {
  return partition_of(graph_text(parameters, body), {.transposes = true});
}

std::string text(const std::string& parameters, const std::string& body) {
  return summary(behind(parameters, body));
}

TEST(Behind, AResidualOfTheTransposedResult) {
  const Partition partition = behind("h: f32[B, 4, 16], v: f32[16, 8], x: f32[B, 8, 4]",
                                     "t = permute(h @ v + 1, axes=[0, 2, 1])\ny = x + t\nreturn y");
  EXPECT_EQ(summary(partition), "gemm y = full(x) + (acc + 1)");
  const epilogue::Epilogue& epilogue = partition.regions[0].epilogue;
  EXPECT_EQ(epilogue.outputs[0].access.strides, (std::vector<ir::Dim>{32, 1, 4}));
  EXPECT_EQ(epilogue.inputs[1].access.strides, (std::vector<ir::Dim>{32, 1, 4}));
}

TEST(Behind, AResidualInAnotherLayoutOfImages) {
  const Partition partition =
      behind("h: f32[B, H, W, 16], v: f32[16, 8], gamma: f32[8], x: f32[B, 8, H, W]",
             "t = permute(h @ v * gamma, axes=[0, 3, 1, 2])\ny = relu(x + t)\nreturn y");
  EXPECT_EQ(summary(partition), "gemm y = relu(full(x) + acc * row(gamma))");
}

TEST(Behind, ATransposedResultIsStored) {
  EXPECT_EQ(text("x: f32[M, 8], w: f32[8, 4]", "y = transpose(relu(x @ w)); return y"),
            "gemm y = relu(acc)");
}

TEST(Behind, TheOrderIsThatOfTheProductAgain) {
  const Partition partition = behind("x: f32[M, 8], w: f32[8, 4], r: f32[4, M], s: f32[M, 4]",
                                     "t = transpose(x @ w) + r\ny = transpose(t) + s\nreturn y");
  EXPECT_EQ(summary(partition), "gemm y = acc + full(r) + full(s)");
  EXPECT_EQ(partition.regions[0].epilogue.outputs[0].access.strides, (std::vector<ir::Dim>{4, 1}));
}

TEST(Behind, AReshapeOfTheTransposedResult) {
  EXPECT_EQ(text("x: f32[2, 3, 8], w: f32[8, 4], r: f32[4, 6]",
                 "t = permute(x @ w, axes=[2, 0, 1])\ny = reshape(t, [4, 6]) + r\nreturn y"),
            "gemm y = acc + full(r)");
}

TEST(Behind, OtherUsersReadTheProductItself) {
  EXPECT_EQ(text("x: f32[M, 8], w: f32[8, 4], r: f32[4, M]",
                 "h = x @ w\ny = transpose(h) + r\nz = tanh(h)\nreturn y, z"),
            "gemm y = acc + full(r), z = tanh(acc)");
}

TEST(Behind, AProductReadsThroughTheTransposeAsBefore) {
  EXPECT_EQ(
      text("x: f32[M, 8], w: f32[8, 4], v: f32[M, 2]", "y = transpose(relu(x @ w)) @ v\nreturn y"),
      "gemm t4 = relu(acc); gemm y = acc");
}

TEST(Behind, AnElementAndItsTransposeAreDifferentElements) {
  const Partition partition =
      behind("x: f32[8, 8], w: f32[8, 8]", "h = x @ w\ny = h + transpose(h)\nreturn y");
  EXPECT_EQ(summary(partition), "gemm h = acc; pointwise y = full(h[0:]) + full(h[0::8])");
}

TEST(Behind, AReductionOfMovedElementsIsDoneAlone) {
  const Partition partition = behind("x: f32[8, 8], w: f32[8, 8], r: f32[8, 8]",
                                     "t = transpose(x @ w) + r\ny = sum(t, axes=[1])\nreturn t, y");
  EXPECT_EQ(summary(partition), "gemm t = acc + full(r); single y");
  bool found = false;
  for (const Refusal& refusal : partition.refusals)
    found |= static_cast<bool>(mentions(refusal.reason, "reduces t; other places"));
  EXPECT_TRUE(found);
}

TEST(Behind, HeadsThatNoStridesOfAMatrixReachStayApart) {
  const Partition partition =
      behind("x: f32[B, S, 8], w: f32[8, 6], m: f32[B, 2, S, 3]",
             "q = permute(reshape(x @ w, [B, S, 2, 3]), axes=[0, 2, 1, 3])\ny = q * m\nreturn y");
  EXPECT_EQ(summary(partition), "gemm t3 = acc; pointwise y = full(t3) * full(m)");
}

TEST(Behind, WithoutSuchKernelsItIsARegionOfItsOwn) {
  EXPECT_EQ(fused("h: f32[B, 4, 16], v: f32[16, 8], x: f32[B, 8, 4]",
                  "y = x + permute(h @ v, axes=[0, 2, 1])\nreturn y"),
            "gemm t3 = acc; pointwise y = full(x) + full(t3)");
}

}  // namespace
}  // namespace attacca::fuse::testing
