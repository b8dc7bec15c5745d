// Weights of bytes that are cast to the activations' dtype: which products widen them, and which
// ones read a converted copy.
#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

constexpr const char* kInputs =
    "x: bf16[M, 128], w: s8[40, 128], t: u8[128, 40], s: bf16[40], u: f16[M, 128]";

std::string widened(const std::string& body) {
  const Partition partition = partition_of(graph_text(kInputs, body), {.quantized_operands = true});
  EXPECT_TRUE(verify(partition)) << body;
  return summary(partition);
}

TEST(Widened, AProductReadsBytesInBothLayouts) {
  const Partition partition = partition_of(graph_text(kInputs,
                                                      "y = (x @ transpose(cast(w, bf16))) * s\n"
                                                      "z = relu(u @ cast(t, f16))\nreturn y, z"),
                                           {.quantized_operands = true});
  EXPECT_EQ(summary(partition), "gemm y = acc * row(s); gemm z = relu(acc)");
  const GemmOperand& columns = partition.regions[0].gemms[0].b;
  EXPECT_EQ(columns.dtype, ir::DType::S8);
  EXPECT_EQ(partition.graph[columns.source].name, "w");
  EXPECT_EQ(columns.access.strides, (std::vector<ir::Dim>{1, 128}));
  const GemmOperand& rows = partition.regions[1].gemms[0].b;
  EXPECT_EQ(rows.dtype, ir::DType::U8);
  EXPECT_EQ(rows.access.strides, (std::vector<ir::Dim>{40, 1}));
}

TEST(Widened, TheCastMayFollowTheTranspose) {
  EXPECT_EQ(widened("y = x @ cast(transpose(w), bf16)\nreturn y"), "gemm y = acc");
}

TEST(Widened, TwoProductsWidenTheSameBytes) {
  EXPECT_EQ(widened("c = cast(w, bf16)\ny = x @ transpose(c)\nz = relu(x) @ transpose(c)\n"
                    "return y, z"),
            "gemm y = acc; pointwise t8 = relu(full(x)); gemm z = acc");
}

TEST(Widened, WithoutSuchKernelsTheyAreConverted) {
  EXPECT_EQ(
      summary(partition_of(graph_text(kInputs, "y = x @ transpose(cast(w, bf16))\nreturn y"))),
      "pointwise t5 = cast(full(w), bf16); gemm y = acc");
}

TEST(Widened, WhoeverElseReadsTheNumbersConvertsThem) {
  EXPECT_EQ(widened("c = cast(w, bf16)\ny = x @ transpose(c)\nz = relu(c)\nreturn y, z"),
            "pointwise z = relu(cast(full(w), bf16)); gemm y = acc");
  EXPECT_EQ(widened("c = cast(w, bf16)\ny = x @ transpose(c)\nreturn y, c"),
            "pointwise c = cast(full(w), bf16); gemm y = acc");
}

TEST(Widened, OtherDtypesAndPartsAreConverted) {
  EXPECT_EQ(widened("y = cast(x, f32) @ transpose(cast(w, f32))\nreturn y"),
            "pointwise t5 = cast(full(x), f32); pointwise t6 = cast(full(w), f32); gemm y = acc");
  EXPECT_EQ(widened("y = x @ transpose(cast(w, bf16)[0:20, :])\nreturn y"),
            "pointwise t5 = cast(full(w), bf16); gemm y = acc");
}

TEST(Widened, BytesThatAreComputedAreConverted) {
  EXPECT_EQ(widened("y = x @ transpose(cast(cast(cast(w, f32) * 0.5, s8), bf16))\nreturn y"),
            "pointwise t9 = cast(cast(cast(full(w), f32) * 0.5, s8), bf16); gemm y = acc");
}

TEST(Widened, NoGateIsMadeOfThem) {
  EXPECT_EQ(widened("h = x @ transpose(cast(w, bf16))\ny = silu(h[:, 0:20]) * h[:, 20:40]\n"
                    "return y"),
            "gemm h = acc; pointwise y = silu(full(h[0:])) * full(h[20:])");
}

}  // namespace
}  // namespace attacca::fuse::testing
