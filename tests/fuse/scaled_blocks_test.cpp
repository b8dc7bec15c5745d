// 8-bit floats with scales of blocks: which products read them directly, and which ops compute the
// scaled numbers.
#include "fuse/device_options.hpp"
#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

constexpr const char* kInputs =
    "x: f8e4m3[M, 320], s: f32[M, 3], w: f8e5m2[144, 320], t: f32[2, 3], b: bf16[144]";
const std::string kNumbers =
    "a = scale_blocks(x, s, [1, 128])\nc = scale_blocks(w, t, [128, 128])\n";

Partition scaled(const std::string& body, const char* inputs = kInputs) {
  return partition_of(graph_text(inputs, body), {.quantized_operands = true});
}

TEST(ScaledBlocks, AProductReadsThem) {
  const Partition partition = scaled(kNumbers + "y = silu(a @ transpose(c) + b)\nreturn y");
  EXPECT_EQ(summary(partition), "gemm y = silu(acc + row(b))");
  const Gemm& gemm = partition.regions[0].gemms[0];
  const auto name = [&](ir::Value value) { return partition.graph[value].name; };
  EXPECT_EQ(name(gemm.a.source), "x");
  EXPECT_EQ(name(gemm.b.source), "w");
  EXPECT_EQ(gemm.a.dtype, ir::DType::F8E4M3);
  EXPECT_EQ(gemm.b.dtype, ir::DType::F8E5M2);
  EXPECT_EQ(gemm.b.access.strides, (std::vector<ir::Dim>{1, 320}));
  ASSERT_TRUE(gemm.a.scales && gemm.b.scales);
  EXPECT_EQ(name(gemm.a.scales->source), "s");
  EXPECT_EQ(gemm.a.scales->access.strides, (std::vector<ir::Dim>{3, 1}));
  EXPECT_EQ(name(gemm.b.scales->source), "t");
  EXPECT_EQ(gemm.b.scales->access.strides, (std::vector<ir::Dim>{1, 3}));
  EXPECT_EQ(partition.regions[0].inputs.size(), 5u);
}

TEST(ScaledBlocks, ScalesMayLieInAnyOrder) {
  const Partition partition = scaled(
      "y = scale_blocks(x, transpose(s), [1, 128]) @ scale_blocks(w, t, [128, 128])\nreturn y",
      "x: f8e4m3[M, 320], s: f32[3, M], w: f8e4m3[320, 144], t: f32[3, 2]");
  EXPECT_EQ(summary(partition), "gemm y = acc");
  const Gemm& gemm = partition.regions[0].gemms[0];
  ASSERT_TRUE(gemm.a.scales && gemm.b.scales);
  EXPECT_EQ(gemm.a.scales->access.strides, (std::vector<ir::Dim>{1, ir::Dim::symbol("M")}));
  EXPECT_EQ(gemm.b.access.strides, (std::vector<ir::Dim>{144, 1}));
  EXPECT_EQ(gemm.b.scales->access.strides, (std::vector<ir::Dim>{2, 1}));
}

TEST(ScaledBlocks, WithoutSuchKernelsTheyAreComputed) {
  EXPECT_EQ(summary(partition_of(graph_text(kInputs, kNumbers + "y = a @ transpose(c)\nreturn y"))),
            "single a; single c; gemm y = acc");
}

TEST(ScaledBlocks, WhoeverElseReadsTheNumbersComputesThem) {
  EXPECT_EQ(summary(scaled(kNumbers + "y = a @ transpose(c)\nz = relu(c)\nreturn y, z")),
            "single c; gemm y = acc; pointwise z = relu(full(c))");
}

TEST(ScaledBlocks, OtherBlocksTypesAndPartsAreComputed) {
  const std::string plain = "a = cast(x, f32)\n";
  EXPECT_EQ(summary(scaled(plain + "y = a @ transpose(scale_blocks(w, t, [128, 128]))\nreturn y")),
            "pointwise a = cast(full(x), f32); single t6; gemm y = acc");
  EXPECT_EQ(summary(scaled(kNumbers + "y = a[:, 0:128] @ transpose(c[:, 0:128])\nreturn y")),
            "single a; single c; gemm y = acc");
  EXPECT_EQ(summary(scaled("a = scale_blocks(x, s, [1, 128])\nc = scale_blocks(w, t, [72, 128])\n"
                           "y = a @ transpose(c)\nreturn y")),
            "single a; single c; gemm y = acc");
}

constexpr const char* kGroups =
    "x: f8e4m3[R, 320], s: f32[R, 3], w: f8e4m3[5, 144, 320], t: f32[5, 2, 3], o: s32[5], "
    "v: f8e4m3[5, 320, 144], u: f32[5, 3, 2], b: bf16[144], i: s32[P], p: s32[5]";
const std::string kOfGroups =
    "a = scale_blocks(x, s, [1, 128])\nc = scale_blocks(w, t, [1, 128, 128])\n";

TEST(ScaledBlocks, AProductOfGroupsReadsThem) {
  const Partition partition =
      scaled(kOfGroups + "y = silu(grouped_matmul(a, transpose(c), o) + b)\nreturn y", kGroups);
  EXPECT_EQ(summary(partition), "gemm y = silu(acc + row(b))");
  const Gemm& gemm = partition.regions[0].gemms[0];
  const auto name = [&](ir::Value value) { return partition.graph[value].name; };
  ASSERT_TRUE(gemm.groups && gemm.a.scales && gemm.b.scales);
  EXPECT_EQ(name(gemm.groups->source), "o");
  EXPECT_EQ(name(gemm.a.source), "x");
  EXPECT_EQ(name(gemm.b.source), "w");
  EXPECT_EQ(gemm.b.access.strides, (std::vector<ir::Dim>{144 * 320, 1, 320}));
  EXPECT_EQ(gemm.a.scales->access.strides, (std::vector<ir::Dim>{3, 1}));
  EXPECT_EQ(name(gemm.b.scales->source), "t");
  EXPECT_EQ(gemm.b.scales->access.strides, (std::vector<ir::Dim>{6, 1, 3}));
  EXPECT_EQ(partition.regions[0].inputs.size(), 6u);
}

TEST(ScaledBlocks, GroupsOfMatricesAsTheyLie) {
  const Partition partition = scaled(
      kOfGroups + "y = grouped_matmul(a, scale_blocks(v, u, [1, 128, 128]), o)\nreturn y", kGroups);
  EXPECT_EQ(summary(partition), "gemm y = acc");
  const Gemm& gemm = partition.regions[0].gemms.at(0);
  ASSERT_TRUE(gemm.b.scales);
  EXPECT_EQ(gemm.b.scales->access.strides, (std::vector<ir::Dim>{6, 2, 1}));
}

// The ends of the groups are computed where the product alone reads them.
TEST(ScaledBlocks, EndsOfGroupsThatAreComputed) {
  EXPECT_EQ(summary(scaled(kOfGroups + "q = o + p\nreturn y = grouped_matmul(a, transpose(c), q)",
                           kGroups)),
            "pointwise q = row(o) + row(p); gemm y = acc");
}

TEST(ScaledBlocks, GroupsInOtherBlocksAreComputed) {
  EXPECT_EQ(summary(scaled("a = scale_blocks(x, s, [1, 128])\n"
                           "c = scale_blocks(w, u, [2, 48, 160])\n"
                           "y = grouped_matmul(a, transpose(c), o)\nreturn y",
                           "x: f8e4m3[R, 320], s: f32[R, 3], w: f8e4m3[5, 144, 320], "
                           "u: f32[3, 3, 2], o: s32[5]")),
            "single a; single c; gemm y = acc");
}

const std::string kOfGatheredRows =
    "r = gather(x, i)\nh = gather(s, i)\na = scale_blocks(r, h, [1, 128])\n"
    "c = scale_blocks(w, t, [1, 128, 128])\n";

// The rows' scales are few bytes, and gathered before.
TEST(ScaledBlocks, AnIndexMayNameTheRowsOfGroups) {
  const std::string body = kOfGatheredRows + "y = grouped_matmul(a, transpose(c), o)\nreturn y";
  const Partition partition = partition_of(graph_text(kGroups, body), gpu_options());
  EXPECT_EQ(summary(partition), "single h; gemm y = acc");
  const GemmOperand& a = partition.regions.back().gemms[0].a;
  const auto name = [&](ir::Value value) { return partition.graph[value].name; };
  ASSERT_TRUE(a.scales && a.rows);
  EXPECT_EQ(name(a.source), "x");
  EXPECT_EQ(name(a.rows->source), "i");
  EXPECT_EQ(name(a.scales->source), "h");
}

TEST(ScaledBlocks, RowsThatOthersReadAreGathered) {
  for (const char* other : {"z = cast(r, f32)", "z = relu(a)"}) {
    const std::string body =
        kOfGatheredRows + "y = grouped_matmul(a, transpose(c), o)\n" + other + "\nreturn y, z";
    const Partition partition = partition_of(graph_text(kGroups, body), gpu_options());
    EXPECT_NE(summary(partition).find("single r"), std::string::npos) << summary(partition);
  }
  const std::string dense =
      "r = gather(x, i)\nh = gather(s, i)\n"
      "a = scale_blocks(r, h, [1, 128])\nc = scale_blocks(v, u, [128, 128])\n"
      "y = a @ transpose(c)\nreturn y";
  EXPECT_EQ(summary(partition_of(graph_text("x: f8e4m3[R, 320], s: f32[R, 3], v: f8e4m3[144, 320], "
                                            "u: f32[2, 3], i: s32[P]",
                                            dense),
                                 gpu_options())),
            "single r; single h; gemm y = acc");
}

constexpr const char* kGates =
    "x: f8e4m3[R, 320], s: f32[R, 3], w: f8e4m3[5, 512, 320], t: f32[5, 4, 3], o: s32[5], "
    "v: f8e4m3[5, 512, 320], u: f32[5, 4, 3]";

TEST(ScaledBlocks, HalvesOfGroupsAreAGate) {
  const Partition partition = scaled(kOfGroups +
                                         "h = grouped_matmul(a, transpose(c), o)\n"
                                         "y = silu(h[:, 0:256]) * h[:, 256:512]\nreturn y",
                                     kGates);
  EXPECT_EQ(summary(partition), "gated y = silu(acc0) * acc1");
}

TEST(ScaledBlocks, TwoProductsOfGroupsAreAGate) {
  const std::string two =
      "d = scale_blocks(v, u, [1, 128, 128])\ng = grouped_matmul(a, transpose(c), o)\n"
      "h = grouped_matmul(a, transpose(d), o)\ny = silu(g) * h\nreturn y";
  const Partition partition = scaled(kOfGroups + two, kGates);
  EXPECT_EQ(summary(partition), "gated y = silu(acc0) * acc1");
  ASSERT_EQ(partition.regions[0].gemms.size(), 2U);
  for (const Gemm& gemm : partition.regions[0].gemms) EXPECT_TRUE(gemm.a.scales && gemm.b.scales);
}

// Halves that begin within a block, alternate columns, and numbers beside numbers in blocks.
TEST(ScaledBlocks, NoGateOfGroupsIsMadeOfParts) {
  EXPECT_EQ(summary(scaled(kOfGroups + "h = grouped_matmul(a, transpose(c), o)\n"
                                       "y = silu(h[:, 0:72]) * h[:, 72:144]\nreturn y",
                           kGroups)),
            "gemm h = acc; pointwise y = silu(full(h[0:])) * full(h[72:])");
  EXPECT_EQ(summary(scaled(kOfGroups + "h = grouped_matmul(a, transpose(c), o)\n"
                                       "y = silu(h[:, 0:512:2]) * h[:, 1:512:2]\nreturn y",
                           kGates))
                .substr(0, 12),
            "gemm h = acc");
  const std::string summed =
      summary(scaled(kOfGroups + "g = grouped_matmul(a, transpose(c), o)\n"
                                 "h = grouped_matmul(a, transpose(cast(v, f32)), o)\n"
                                 "y = silu(g) * h\nreturn y",
                     kGates));
  EXPECT_EQ(summed.find("gated"), std::string::npos) << summed;
}

TEST(ScaledBlocks, NoGateIsMadeOfThem) {
  EXPECT_EQ(summary(scaled(kNumbers + "h = a @ transpose(c)\n"
                                      "y = silu(h[:, 0:72]) * h[:, 72:144]\nreturn y")),
            "gemm h = acc; pointwise y = silu(full(h[0:])) * full(h[72:])");
}

}  // namespace
}  // namespace attacca::fuse::testing
