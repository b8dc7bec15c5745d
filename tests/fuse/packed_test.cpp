// Packed weights: which ops read them directly, and which ones unpack them.
#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

constexpr const char* kInputs = "x: bf16[M, 128], p: u8[4608], b: bf16[40]";
const std::string kUnpack =
    "w = unpack(p, [40, 128], weights=s8, bits=4, group=64, scales=bf16, dtype=bf16)\n";

std::string packed(const std::string& body) {
  return summary(partition_of(graph_text(kInputs, kUnpack + body), {.quantized_operands = true}));
}

TEST(Packed, AProductReadsThem) {
  const Partition partition =
      partition_of(graph_text(kInputs, kUnpack + "y = silu(x @ transpose(w) + b)\nreturn y"),
                   {.quantized_operands = true});
  EXPECT_EQ(summary(partition), "gemm y = silu(acc + row(b))");
  const Gemm& gemm = partition.regions[0].gemms[0];
  ASSERT_TRUE(gemm.b.packed);
  EXPECT_EQ(gemm.b.packed->k, 128);
  EXPECT_EQ(partition.graph[gemm.b.source].name, "p");
  EXPECT_EQ(partition.regions[0].inputs[1], gemm.b.source);
}

TEST(Packed, WithoutSuchKernelsTheyAreUnpacked) {
  EXPECT_EQ(summary(partition_of(graph_text(kInputs, kUnpack + "y = x @ transpose(w)\nreturn y"))),
            "single w; gemm y = acc");
}

TEST(Packed, WhoeverElseReadsTheNumbersUnpacks) {
  EXPECT_EQ(packed("y = x @ transpose(w)\nz = relu(w)\nreturn y, z"),
            "single w; gemm y = acc; pointwise z = relu(full(w))");
  EXPECT_EQ(packed("y = x @ transpose(w)\nreturn y, w"), "single w; gemm y = acc");
}

TEST(Packed, AProductOfThemByThemselvesUnpacksThem) {
  EXPECT_EQ(packed("y = w @ transpose(w)\nreturn y"), "single w; gemm y = acc");
}

TEST(Packed, APartOfThemIsUnpacked) {
  EXPECT_EQ(packed("y = x @ transpose(w[0:20, :])\nreturn y"), "single w; gemm y = acc");
  EXPECT_EQ(packed("y = x[:, 0:40] @ w\nreturn y"), "single w; gemm y = acc");
}

TEST(Packed, NoGateIsMadeOfThem) {
  EXPECT_EQ(packed("h = x @ transpose(w)\ny = silu(h[:, 0:20]) * h[:, 20:40]\nreturn y"),
            "gemm h = acc; pointwise y = silu(full(h[0:])) * full(h[20:])");
}

}  // namespace
}  // namespace attacca::fuse::testing
