// Weights in codes of integers: which products read them, and which ones weights that another
// region decodes.
#include "fuse/device_options.hpp"
#include "fuse/explain/explain.hpp"
#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

constexpr const char* kInputs =
    "x: bf16[R, 128], c: u8[5, 96, 64], s: bf16[5, 96, 2], z: u8[5, 96, 2], o: s32[5], "
    "d: s8[5, 128, 96], t: f32[5, 128, 1]";

Partition cut(const std::string& body, const FuseOptions& options = gpu_options()) {
  return partition_of(graph_text(kInputs, body), options);
}

TEST(Codes, AGroupedProductReadsThemAsTheyLie) {
  const Partition partition =
      cut("y = relu(grouped_matmul(x, transpose(decode(c, s, z)), o))\n"
          "w = grouped_matmul(x, decode(d, t, bits=8), o)\nreturn y, w");
  EXPECT_EQ(summary(partition), "gemm y = relu(acc); gemm w = acc");
  const GemmOperand& columns = partition.regions[0].gemms[0].b;
  EXPECT_EQ(to_string(columns.codes->format), "u4 less zeros by bf16 of 64");
  EXPECT_EQ(partition.graph[columns.source].name, "c");
  EXPECT_EQ(partition.graph[columns.codes->scales].name, "s");
  EXPECT_EQ(partition.graph[*columns.codes->zeros].name, "z");
  EXPECT_EQ(columns.access.strides, (std::vector<ir::Dim>{96 * 128, 1, 128}));
  const GemmOperand& rows = partition.regions[1].gemms[0].b;
  EXPECT_EQ(to_string(rows.codes->format), "s8 by f32 of 96");
  EXPECT_FALSE(rows.codes->zeros);
  EXPECT_NE(explain_text(partition).find(":bf16 of u4 by s, "), std::string::npos);
}

TEST(Codes, HalvesAreAGate) {
  EXPECT_EQ(summary(cut("h = grouped_matmul(x, transpose(decode(c, s, zero=8)), o)\n"
                        "y = silu(h[:, :48]) * h[:, 48:]\nreturn y")),
            "gated y = silu(acc0) * acc1");
}

TEST(Codes, WithoutSuchKernelsTheyAreDecodedBefore) {
  const Partition partition = cut("return y = grouped_matmul(x, transpose(decode(c, s)), o)", {});
  EXPECT_EQ(summary(partition), "single t7; gemm y = acc");
  EXPECT_NE(explain_text(partition).find("no kernel here decodes these weights"),
            std::string::npos);
}

}  // namespace
}  // namespace attacca::fuse::testing
