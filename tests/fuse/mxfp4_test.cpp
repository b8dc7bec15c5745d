// Weights in MXFP4: which products read the codes, and which ones weights that another region
// widens.
#include "fuse/device_options.hpp"
#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

constexpr const char* kInputs =
    "x: bf16[R, 64], c: u8[5, 96, 32], s: u8[5, 96, 2], o: s32[5], d: u8[5, 64, 16], "
    "t: u8[5, 64, 1], p: u8[96, 32], q: u8[96, 2]";

std::string regions(const std::string& body, const FuseOptions& options = gpu_options()) {
  return summary(partition_of(graph_text(kInputs, body), options));
}

TEST(MxFp4, AGroupedProductReadsCodesInBothLayouts) {
  const Partition partition =
      partition_of(graph_text(kInputs,
                              "y = relu(grouped_matmul(x, transpose(mxfp4(c, s)), o))\n"
                              "z = grouped_matmul(x, mxfp4(d, t), o)\nreturn y, z"),
                   gpu_options());
  EXPECT_EQ(summary(partition), "gemm y = relu(acc); gemm z = acc");
  const GemmOperand& columns = partition.regions[0].gemms[0].b;
  EXPECT_EQ(columns.dtype, ir::DType::BF16);
  EXPECT_EQ(partition.graph[columns.source].name, "c");
  EXPECT_EQ(partition.graph[columns.codes->scales].name, "s");
  EXPECT_EQ(columns.access.strides, (std::vector<ir::Dim>{96 * 64, 1, 64}));
  const GemmOperand& rows = partition.regions[1].gemms[0].b;
  EXPECT_EQ(rows.access.strides, (std::vector<ir::Dim>{64 * 32, 32, 1}));
}

TEST(MxFp4, AlternateRowsAreAGate) {
  EXPECT_EQ(regions("h = grouped_matmul(x, permute(mxfp4(c, s), [0, 2, 1]), o)\n"
                    "y = silu(h[:, ::2]) * h[:, 1::2]\nreturn y"),
            "gated y = silu(acc0) * acc1");
}

TEST(MxFp4, TwoProductsReadTheSameCodes) {
  EXPECT_EQ(regions("w = transpose(mxfp4(c, s))\ny = grouped_matmul(x, w, o)\n"
                    "z = grouped_matmul(x * x, w, o)\nreturn y, z"),
            "gemm y = acc; pointwise t11 = full(x) * full(x); gemm z = acc");
}

TEST(MxFp4, OtherProductsReadWeightsThatAreWidenedBefore) {
  EXPECT_EQ(regions("y = relu(x @ transpose(mxfp4(p, q)))\nreturn y"),
            "single t8; gemm y = relu(acc)");
}

TEST(MxFp4, PartsThatDoNotBeginTheWeightsAreWidenedBefore) {
  EXPECT_EQ(regions("y = grouped_matmul(x, transpose(mxfp4(c, s)[:, 8:24, :]), o)\nreturn y"),
            "single t8; gemm y = acc");
  EXPECT_EQ(regions("y = grouped_matmul(x, transpose(mxfp4(c, s)[:, 0:24, :]), o)\nreturn y"),
            "gemm y = acc");
}

TEST(MxFp4, WhatSomethingElseReadsIsWidenedForIt) {
  EXPECT_EQ(regions("w = mxfp4(c, s)\ny = grouped_matmul(x, transpose(w), o)\nreturn y, w"),
            "single w; gemm y = acc");
}

TEST(MxFp4, WithoutSuchKernelsTheyAreWidenedBefore) {
  const std::string body = "y = grouped_matmul(x, transpose(mxfp4(c, s)), o)\nreturn y";
  EXPECT_EQ(regions(body, {}), "single t8; gemm y = acc");
  EXPECT_EQ(regions(body, gpu_options(false)), "single t8; single t9; single y");
}

}  // namespace
}  // namespace attacca::fuse::testing
