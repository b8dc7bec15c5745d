// From regions to numbers: which axes merge, the operands' strides, and what is refused.
#include "gtest/gtest.h"

#include "differential/random_graph.hpp"
#include "ir/text/text.hpp"
#include "problem_testing.hpp"
#include "setting.hpp"

namespace attacca::tune {
namespace {

using testing::make;
using testing::words;

TEST(Concretize, APlainProduct) {
  EXPECT_EQ(
      words("a: bf16[M, K], b: bf16[K, N]", "return a @ b", {{{"M", 3}, {"K", 8}, {"N", 16}}}),
      "m=3 n=16 batch=1 | k=8 a 0+(0)8,1 @16 | b 0+(0)16,1 @16 | -> 0+(0)16,1 @16");
  EXPECT_EQ(words("a: f16[3, 8], w: f16[16, 8]", "return relu(a @ transpose(w))"),
            "m=3 n=16 batch=1 | k=8 a 0+(0)8,1 @16 | b 0+(0)1,8 @16 | -> 0+(0)16,1 @16");
}

TEST(Concretize, BatchesOfASharedBBecomeRows) {
  EXPECT_EQ(words("a: bf16[3, 4, 8], b: bf16[8, 16]", "return a @ b"),
            "m=12 n=16 batch=1 | k=8 a 0+(0)8,1 @16 | b 0+(0)16,1 @16 | -> 0+(0)16,1 @16");
  EXPECT_EQ(words("a: bf16[2, 3, 4, 8], b: bf16[8, 16], r: bf16[2, 3, 4, 16]", "return a @ b + r"),
            "m=24 n=16 batch=1 | k=8 a 0+(0)8,1 @16 | b 0+(0)16,1 @16 | full 0+(0)16,1 @16 | -> "
            "0+(0)16,1 @16");
}

TEST(Concretize, BatchesOfOneRowBecomeRowsWithTheirOperands) {
  EXPECT_EQ(words("a: bf16[5, 1, 8], b: bf16[8, 16], r: bf16[5, 1, 16], c: bf16[16]",
                  "return a @ b + r * c"),
            "m=5 n=16 batch=1 | k=8 a 0+(0)8,1 @16 | b 0+(0)16,1 @16 | row 0+(0)0,1 @16 | full "
            "0+(0)16,1 @16 | -> 0+(0)16,1 @16");
  EXPECT_EQ(words("a: bf16[5, 1, 8], b: bf16[8, 16], s: bf16[5, 1, 1]", "return a @ b * s"),
            "m=5 n=16 batch=1 | k=8 a 0+(0)8,1 @16 | b 0+(0)16,1 @16 | col 0+(0)1,0 @16 | -> "
            "0+(0)16,1 @16");
  // Not along the outer axis, of which r has one.
  EXPECT_EQ(words("a: bf16[3, 5, 1, 8], b: bf16[8, 16], r: bf16[5, 1, 16]", "return a @ b + r"),
            "m=5 n=16 batch=3 | k=8 a 0+(40)8,1 @16 | b 0+(0)16,1 @16 | full 0+(0)16,1 @16 | -> "
            "0+(80)16,1 @16");
  // A B of its own for each batch.
  EXPECT_EQ(words("a: bf16[5, 1, 8], b: bf16[5, 8, 16], r: bf16[5, 1, 16]", "return a @ b + r"),
            "m=1 n=16 batch=5 | k=8 a 0+(8)8,1 @16 | b 0+(128)16,1 @16 | row 0+(16)0,1 @16 | -> "
            "0+(16)0,1 @16");
}

constexpr const char* kScaledBody =
    "return scale_blocks(a, s, [1, 1, 128]) @ transpose(scale_blocks(b, t, [128, 128]))";

TEST(Concretize, ScalesOfBlocksGoWithTheirOperands) {
  EXPECT_EQ(words("a: f8e4m3[4, 320], s: f32[3, 4], b: f8e4m3[144, 320], t: f32[2, 3], c: f32[144]",
                  "return scale_blocks(a, transpose(s), [1, 128]) @"
                  " transpose(scale_blocks(b, t, [128, 128])) + c"),
            "m=4 n=144 batch=1 | k=320 a 0+(0)320,1 @16 | b 0+(0)1,320 @16 | by 0+(0)1,4 @16 and "
            "0+(0)1,3 @16 | row 0+(0)0,1 @16 | -> 0+(0)144,1 @16");
  // Batches of both become rows, of one they stay.
  EXPECT_EQ(words("a: f8e4m3[5, 4, 320], s: f32[5, 4, 3], b: f8e4m3[144, 320], t: f32[2, 3]",
                  kScaledBody),
            "m=20 n=144 batch=1 | k=320 a 0+(0)320,1 @16 | b 0+(0)1,320 @16 | by 0+(0)3,1 @16 and "
            "0+(0)1,3 @16 | -> 0+(0)144,1 @16");
  EXPECT_EQ(words("a: f8e4m3[5, 4, 320], s: f32[5, 4, 3; 16, 3, 1], b: f8e4m3[144, 320], "
                  "t: f32[2, 3]",
                  kScaledBody),
            "m=4 n=144 batch=5 | k=320 a 0+(1280)320,1 @16 | b 0+(0)1,320 @16 | by 0+(16)3,1 @16 "
            "and 0+(0)1,3 @16 | -> 0+(576)144,1 @16");
}

TEST(Concretize, ScalesOfBlocksOfGroups) {
  EXPECT_EQ(words("a: f8e4m3[R, 320], s: f32[3, R], b: f8e4m3[5, 144, 320], t: f32[5, 2, 3], "
                  "o: s32[5]",
                  "return grouped_matmul(scale_blocks(a, transpose(s), [1, 128]), "
                  "transpose(scale_blocks(b, t, [1, 128, 128])), o)",
                  {{{"R", 4}}}),
            "m=4 n=144 batch=1 | k=320 a 0+(0)320,1 @16 | b 0+(46080)1,320 @16 | by 0+(0)1,4 @16 "
            "and 0+(6)1,3 @16 | -> 0+(0)144,1 @16");
  EXPECT_EQ(words("a: f8e4m3[4, 320], s: f32[4, 3], b: f8e4m3[5, 320, 144], t: f32[5, 3, 2], "
                  "o: s32[5]",
                  "return grouped_matmul(scale_blocks(a, s, [1, 128]), "
                  "scale_blocks(b, t, [1, 128, 128]), o)"),
            "m=4 n=144 batch=1 | k=320 a 0+(0)320,1 @16 | b 0+(46080)144,1 @16 | by 0+(0)3,1 @16 "
            "and 0+(6)2,1 @16 | -> 0+(0)144,1 @16");
}

// B's strides count weights, and K runs along them or across.
TEST(Concretize, WeightsInMxFp4) {
  EXPECT_EQ(words("x: bf16[R, 64], w: u8[3, 96, 32], u: u8[3, 96, 2], o: s32[3]",
                  "return grouped_matmul(x, transpose(mxfp4(w, u)), o)", {{{"R", 6}}}),
            "m=6 n=96 batch=1 | k=64 a 0+(0)64,1 @16 | b 0+(6144)1,64 @16 | mxfp4 by 0+(0)0,1 @16 "
            "| -> 0+(0)96,1 @16");
  EXPECT_EQ(words("x: bf16[6, 96], w: u8[3, 96, 32], u: u8[3, 96, 2], o: s32[3]",
                  "return grouped_matmul(x, mxfp4(w, u), o)"),
            "m=6 n=64 batch=1 | k=96 a 0+(0)96,1 @16 | b 0+(6144)64,1 @16 | mxfp4 by 0+(0)0,1 @16 "
            "| -> 0+(0)64,1 @16");
}

TEST(Concretize, WeightsInIntegers) {
  EXPECT_EQ(words("x: bf16[R, 64], w: u8[3, 96, 32], u: bf16[3, 96, 2], z: u8[3, 96, 2], o: s32[3]",
                  "return grouped_matmul(x, transpose(decode(w, u, z)), o)", {{{"R", 6}}}),
            "m=6 n=96 batch=1 | k=64 a 0+(0)64,1 @16 | b 0+(6144)1,64 @16 | u4 by 0+(0)0,1 @16 "
            "less 0+(0)0,1 @16 | -> 0+(0)96,1 @16");
}

TEST(Concretize, WeightsInMxFp4AreAQuarterOfTheBytes) {
  const auto bytes_of = [](const std::string& weights, const std::string& body) {
    return problem::bytes(*make("x: bf16[64, 2048], o: s32[8], " + weights, body).problem);
  };
  const double rest = 64 * 2048 * 2 + 64 * 1024 * 2, weights = 8.0 * 1024 * 2048;
  EXPECT_EQ(bytes_of("w: bf16[8, 1024, 2048]", "return grouped_matmul(x, transpose(w), o)"),
            rest + 2 * weights);
  EXPECT_EQ(bytes_of("w: u8[8, 1024, 1024], u: u8[8, 1024, 64]",
                     "return grouped_matmul(x, transpose(mxfp4(w, u)), o)"),
            rest + weights / 2 + weights / 32);
}

// Of a table, its rows by an index, and of how many.
TEST(Concretize, RowsThatAnIndexNames) {
  EXPECT_EQ(words("a: bf16[6, 8], b: bf16[8, 16], e: bf16[5, 32], i: s64[6, 2]",
                  "return a @ b + gather(e, reshape(i[:, 1:], [6]))[:, 1::2]"),
            "m=6 n=16 batch=1 | k=8 a 0+(0)8,1 @16 | b 0+(0)16,1 @16 | full 1+(0)32,2 @2 | one of "
            "5 rows by 1+(0)2,0 @8 | -> 0+(0)16,1 @16");
  EXPECT_EQ(words("a: bf16[M, 8], b: bf16[8, 16], s: f32[E, 1], i: s32[M]",
                  "return relu(a @ b) * gather(s, i)", {{{"M", 3}, {"E", 4}}}),
            "m=3 n=16 batch=1 | k=8 a 0+(0)8,1 @16 | b 0+(0)16,1 @16 | col 0+(0)1,0 @16 | one of "
            "4 rows by 0+(0)1,0 @16 | -> 0+(0)16,1 @16");
}

// Its groups are what batches are for other operands.
TEST(Concretize, RowsOfGroups) {
  EXPECT_EQ(
      words("a: bf16[R, 8], b: bf16[3, 8, 16], o: s32[3], e: bf16[3, 32]",
            "return grouped_matmul(a, b, o) + gather(e, group_ids(o, [R]))[:, 1::2]", {{{"R", 6}}}),
      "m=6 n=16 batch=1 | k=8 a 0+(0)8,1 @16 | b 0+(128)16,1 @16 | row 1+(32)0,2 @2 | -> "
      "0+(0)16,1 @16");
  const auto made = make("a: bf16[6, 8], b: bf16[3, 8, 16], o: s32[3], e: bf16[3, 16], i: s64[6]",
                         "return grouped_matmul(a, b, o) * gather(e, i) + "
                         "gather(e, group_ids(o, [6]))");
  ASSERT_TRUE(made.problem) << to_string(made.problem.error());
  EXPECT_TRUE(reads_by_group(*made.problem));
  const problem::Problem numbered = with_numbered_groups(*made.problem);
  EXPECT_FALSE(reads_by_group(numbered));
  EXPECT_TRUE(epilogue::verify(numbered.epilogue));
  ASSERT_EQ(epilogue::indexed_inputs(numbered.epilogue).size(), 2U);
  ASSERT_EQ(numbered.views.indices.size(), 2U);
  EXPECT_EQ(numbered.named_rows, (std::vector<int64_t>{3, 3}));
  for (size_t i = 0; i < numbered.views.inputs.size(); ++i) {
    const epilogue::Input& before = made.problem->epilogue.inputs[i];
    if (!before.group_stride) continue;
    EXPECT_EQ(numbered.epilogue.inputs[i].role, epilogue::Role::Full);
    EXPECT_EQ(numbered.epilogue.inputs[i].rows->dtype, ir::DType::S32);
    EXPECT_EQ(numbered.views.inputs[i].row_stride, 16);
    EXPECT_EQ(numbered.views.inputs[i].batch_stride, 0);
  }
  // A row of each group is read.
  const auto bytes_of = [](const std::string& tail) {
    return problem::bytes(*make("a: bf16[64, 8], b: bf16[3, 8, 16], o: s32[3], e: bf16[3, 16]",
                                "return grouped_matmul(a, b, o)" + tail)
                               .problem);
  };
  EXPECT_EQ(bytes_of(" + gather(e, group_ids(o, [64]))") - bytes_of(""), 3.0 * 16 * 2);
}

TEST(Concretize, BatchesMergeWithEachOther) {
  EXPECT_EQ(words("a: bf16[2, 3, 4, 8], b: bf16[2, 3, 8, 16]", "return a @ b"),
            "m=4 n=16 batch=6 | k=8 a 0+(32)8,1 @16 | b 0+(128)16,1 @16 | -> 0+(64)16,1 @16");
  EXPECT_EQ(words("a: bf16[1, 3, 4, 8], b: bf16[3, 8, 16]", "return a @ b"),
            "m=4 n=16 batch=3 | k=8 a 0+(32)8,1 @16 | b 0+(128)16,1 @16 | -> 0+(64)16,1 @16");
}

TEST(Concretize, BatchesThatDoNotMergeAreStepsOfLaunches) {
  EXPECT_EQ(words("a: bf16[2, 3, 4, 8], b: bf16[3, 8, 16]", "return a @ b"),
            "m=4 n=16 batch=3 outer=2 | k=8 a 0+(32)8,1 @16 | b 0+(128)16,1 @16 | -> 0+(64)16,1 "
            "@16");
  EXPECT_EQ(words("x: bf16[2, 5, 48], y: bf16[2, 5, 48]",
                  "q = permute(reshape(x, [2, 5, 3, 16]), [0, 2, 1, 3])\n"
                  "k = permute(reshape(y, [2, 5, 3, 16]), [0, 2, 3, 1])\n"
                  "return q @ k"),
            "m=5 n=5 batch=3 outer=2 | k=16 a 0+(16)48,1 @16 | b 0+(16)1,48 @16 | -> 0+(25)5,1 @2");
}

TEST(Concretize, TheLongestBatchIsTheKernels) {
  const std::string body = "return permute(q, [0, 2, 1, 3]) @ permute(k, [0, 2, 3, 1])";
  const auto of = [&](const std::string& shape) {
    return words("q: bf16" + shape + ", k: bf16" + shape, body);
  };
  EXPECT_EQ(of("[7, 5, 3, 16]").substr(0, 26), "m=5 n=5 batch=7 outer=3 | ");
  EXPECT_EQ(of("[3, 5, 7, 16]").substr(0, 26), "m=5 n=5 batch=7 outer=3 | ");
  for (const char* shape : {"[7, 5, 3, 16]", "[3, 5, 7, 16]"}) {
    const auto made = make(std::string("q: bf16") + shape + ", k: bf16" + shape, body);
    ASSERT_TRUE(made.problem);
    EXPECT_EQ(testing::difference(*made.problem, *made.region, {}, [](ir::Value) { return 16; }),
              "");
    EXPECT_NE(problem::shape_bucket(*made.problem).find(" outer=3"), std::string::npos);
  }
}

// Their product does not fit 64 bits.
TEST(Concretize, BatchesOfAnySize) {
  for (const auto& [a, b] : {std::pair<int64_t, int64_t>{3037000500, 3037000500},
                             {9223372036854775807, 2},
                             {4294967296, 4294967296}}) {
    const auto made = make("x: bf16[A, B, 1, 64], w: bf16[64, 64]", "return silu(x @ transpose(w))",
                           {{{"A", a}, {"B", b}}});
    ASSERT_FALSE(made.problem) << a;
    EXPECT_NE(made.problem.error().what.find("does not fit"), std::string::npos);
  }
}

TEST(Concretize, APerBatchBiasKeepsTheBatch) {
  EXPECT_EQ(words("a: bf16[3, 4, 8], b: bf16[8, 16], c: bf16[3, 1, 16]", "return a @ b + c"),
            "m=4 n=16 batch=3 | k=8 a 0+(32)8,1 @16 | b 0+(0)16,1 @16 | row 0+(16)0,1 @16 | -> "
            "0+(64)16,1 @16");
  EXPECT_EQ(words("a: bf16[3, 4, 8], b: bf16[8, 16], c: bf16[3, 1, 1]", "return a @ b + c"),
            "m=4 n=16 batch=3 | k=8 a 0+(32)8,1 @16 | b 0+(0)16,1 @16 | scalar 0+(1)0,0 @16 | -> "
            "0+(64)16,1 @16");
  EXPECT_EQ(words("a: bf16[3, 4, 8], b: bf16[8, 16], c: bf16[3, 4, 1]", "return a @ b + c"),
            "m=12 n=16 batch=1 | k=8 a 0+(0)8,1 @16 | b 0+(0)16,1 @16 | col 0+(0)1,0 @16 | -> "
            "0+(0)16,1 @16");
}

TEST(Concretize, OneRowABatchBecomesRows) {
  EXPECT_EQ(words("a: bf16[3, 1, 8], b: bf16[8, 16]", "return a @ b"),
            "m=3 n=16 batch=1 | k=8 a 0+(0)8,1 @16 | b 0+(0)16,1 @16 | -> 0+(0)16,1 @16");
  // Rows with gaps.
  EXPECT_EQ(words("x: bf16[3, 5, 8], b: bf16[8, 16]", "return x[:, 2:3, :] @ b"),
            "m=3 n=16 batch=1 | k=8 a 16+(0)40,1 @16 | b 0+(0)16,1 @16 | -> 0+(0)16,1 @16");
}

TEST(Concretize, StridesAndOffsets) {
  EXPECT_EQ(words("a: bf16[4, 8; 12, 1], b: bf16[8, 16]", "return a @ b"),
            "m=4 n=16 batch=1 | k=8 a 0+(0)12,1 @16 | b 0+(0)16,1 @16 | -> 0+(0)16,1 @16");
  EXPECT_EQ(words("a: bf16[4, 16], b: bf16[8, 16]", "return a[:, 8:16] @ b"),
            "m=4 n=16 batch=1 | k=8 a 8+(0)16,1 @16 | b 0+(0)16,1 @16 | -> 0+(0)16,1 @16");
  EXPECT_EQ(words("a: bf16[4, 16], b: bf16[8, 16]", "return a[:, 3:11] @ b"),
            "m=4 n=16 batch=1 | k=8 a 3+(0)16,1 @2 | b 0+(0)16,1 @16 | -> 0+(0)16,1 @16");
  EXPECT_EQ(words("a: bf16[3, 4, 8; 100, 8, 1], b: bf16[8, 16]", "return a @ b"),
            "m=4 n=16 batch=3 | k=8 a 0+(100)8,1 @16 | b 0+(0)16,1 @16 | -> 0+(64)16,1 @16");
}

TEST(Concretize, AlignmentIsOfTheMemoryToo) {
  EXPECT_EQ(words("a: f32[4, 16], b: f32[8, 16]", "return a[:, 2:10] @ b", {.alignment = 4}),
            "m=4 n=16 batch=1 | k=8 a 2+(0)16,1 @4 | b 0+(0)16,1 @4 | -> 0+(0)16,1 @4");
  EXPECT_EQ(words("a: f32[4, 16], b: f32[8, 16]", "return a[:, 2:10] @ b", {.alignment = 256}),
            "m=4 n=16 batch=1 | k=8 a 2+(0)16,1 @8 | b 0+(0)16,1 @16 | -> 0+(0)16,1 @16");
}

TEST(Concretize, GatesReadPartsOfOneProduct) {
  const auto made = make("a: bf16[4, 8], b: bf16[8, 2*I]",
                         "h = a @ b\nreturn silu(h[:, :I]) * h[:, I:]", {{{"I", 16}}});
  EXPECT_EQ(words(made.problem),
            "m=4 n=16 batch=1 | k=8 a 0+(0)8,1 @16 | b 0+(0)32,1 @16 | -> 0+(0)16,1 @16");
  EXPECT_EQ(made.problem->products[0].n, 32);
  EXPECT_TRUE(made.problem->epilogue.inputs[1].column_offset.is(16));
}

TEST(Concretize, EmptyExtents) {
  const ir::SymbolValues none = {{"M", 0}};
  EXPECT_EQ(words("a: bf16[M, 8], b: bf16[8, 16]", "return a @ b", {none}).substr(0, 16),
            "m=0 n=16 batch=1");
  EXPECT_TRUE(make("a: bf16[M, 8], b: bf16[8, 16]", "return a @ b", {none}).problem->empty());
  EXPECT_EQ(words("a: bf16[4, K], b: bf16[K, 16]", "return a @ b", {{{"K", 0}}}).substr(0, 20),
            "m=4 n=16 batch=1 | k");
}

TEST(Concretize, CoordinatesHave32Bits) {
  const auto extents = [](int64_t b, int64_t m) {
    const auto made =
        make("a: bf16[B, M, 8], b: bf16[8, 16]", "return a @ b", {{{"B", b}, {"M", m}}});
    return made.problem ? words(made.problem).substr(0, words(made.problem).find(" |"))
                        : made.problem.error().what;
  };
  EXPECT_EQ(extents(32767, 65536), "m=2147418112 n=16 batch=1");
  // The axes fit separately where they do not fit merged.
  EXPECT_EQ(extents(65536, 65536), "m=65536 n=16 batch=65536");
  EXPECT_EQ(extents(2, 3'000'000'000), "M = 3000000000 does not fit a kernel's 32-bit coordinates");
}

TEST(Concretize, SymbolsNeedValues) {
  const auto made = make("a: bf16[M, 8], b: bf16[8, 16]", "return a @ b");
  ASSERT_FALSE(made.problem);
  EXPECT_NE(made.problem.error().what.find("M"), std::string::npos) << made.problem.error().what;
}

TEST(Concretize, ReductionsHaveNoKernel) {
  auto graph = ir::parse_graph(
      "graph g(a: f32[4, 8], b: f32[8, 16]) {\n return sum(relu(a @ b), axes=[1]) \n}");
  ASSERT_TRUE(graph) << to_string(graph.error());
  const fuse::Partition partition = fuse::partition(*std::move(graph));
  const auto problem = problem::concretize(partition.regions[0], partition.graph, {},
                                           ir::Mode::Fp32, [](ir::Value) { return 16; });
  ASSERT_FALSE(problem);
  EXPECT_EQ(problem.error().what, "a reduction inside a region has no kernel on this device yet");
}

// Regions of random graphs with an epilogue, as the device's plans cut them.
TEST(Concretize, ReachesTheRegionsElements) {
  const uint64_t first = setting("ATTACCA_SEED", 1), count = 1500;
  int regions = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const fuse::Partition partition = fuse::partition(
        attacca::testing::random_graph(seed), {.fuse = true, .reductions = fuse::Reductions::Amax});
    const auto alignment_of = [&](ir::Value value) { return 1 << (value.id + seed) % 6; };
    for (const fuse::Region& region : partition.regions) {
      if (region.kind == fuse::RegionKind::Single) continue;
      ++regions;
      const auto problem =
          problem::concretize(region, partition.graph, {}, ir::Mode::Fp32, alignment_of);
      ASSERT_TRUE(problem) << "seed " << seed << ": " << to_string(problem.error());
      ASSERT_EQ(testing::difference(*problem, region, {}, alignment_of), "")
          << "seed " << seed << "\n"
          << words(problem) << "\n"
          << print_graph(partition.graph);
    }
  }
  EXPECT_GT(regions, 1500);
}

}  // namespace
}  // namespace attacca::tune
