// A region that is printed and parsed again gives the same problem.
#include "problem/region_graph.hpp"

#include "gtest/gtest.h"

#include "differential/random_graph.hpp"
#include "fuse/device_options.hpp"
#include "ir/text/text.hpp"
#include "problem_testing.hpp"
#include "setting.hpp"

namespace attacca::tune {
namespace {

// Empty: the problem that comes back is the one that was written.
std::string lost(const ir::Graph& graph, const fuse::Region& region,
                 const ir::SymbolValues& symbols, ir::Mode mode,
                 const problem::AlignmentOf& alignment_of) {
  const auto problem = problem::concretize(region, graph, symbols, mode, alignment_of);
  if (!problem) return problem.error().what;
  const auto text = problem::write_problem(graph, region, symbols, mode, alignment_of);
  if (!text) return "not written: " + to_string(text.error());
  const auto read = problem::read_problem(*text);
  if (!read) return "not read: " + to_string(read.error()) + text->graph;
  if (problem::problem_class(*read) != problem::problem_class(*problem))
    return problem::problem_class(*problem) + "\nbecame\n" + problem::problem_class(*read) + "\n" +
           text->graph;
  if (testing::words(read) != testing::words(problem))
    return testing::words(problem) + "\nbecame\n" + testing::words(read) + "\n" + text->graph;
  if (problem::shape_bucket(*read) != problem::shape_bucket(*problem)) return "another bucket";
  return {};
}

TEST(RegionGraph, RandomRegionsComeBack) {
  const uint64_t first = setting("ATTACCA_SEED", 1);
  int regions = 0;
  for (uint64_t seed = first; seed < first + 1000; ++seed) {
    const fuse::Partition partition =
        fuse::partition(attacca::testing::random_graph(seed), fuse::gpu_options());
    const auto alignment_of = [&](ir::Value value) { return 1 << (value.id + seed) % 5; };
    for (const fuse::Region& region : partition.regions) {
      if (region.kind == fuse::RegionKind::Single) continue;
      ++regions;
      const ir::Mode mode = seed % 2 == 0 ? ir::Mode::Fp32 : ir::Mode::Eager;
      ASSERT_EQ(lost(partition.graph, region, {}, mode, alignment_of), "")
          << "seed " << seed << "\n"
          << print_graph(partition.graph);
    }
  }
  EXPECT_GT(regions, 1000);
}

std::string lost(const std::string& parameters, const std::string& body,
                 const testing::MakeOptions& options = {}) {
  const auto made = testing::make(parameters, body, options);
  return lost(made.partition.graph, *made.region, options.symbols, options.mode,
              [&](ir::Value value) { return value.id % 2 == 0 ? 4 : 16; });
}

TEST(RegionGraph, ScalesOfBlocksComeBack) {
  EXPECT_EQ(lost("a: f8e4m3[M, 320], s: f32[3, M], b: f8e4m3[144, 320], t: f32[2, 3]",
                 "return relu(scale_blocks(a, transpose(s), [1, 128]) @ "
                 "transpose(scale_blocks(b, t, [128, 128])))",
                 {{{"M", 5}}}),
            "");
}

TEST(RegionGraph, ScalesOfBlocksOfGroupsComeBack) {
  EXPECT_EQ(lost("a: f8e4m3[R, 320], s: f32[3, R], b: f8e4m3[5, 144, 320], t: f32[5, 2, 3], "
                 "o: s32[5], e: bf16[5, 144]",
                 "return relu(grouped_matmul(scale_blocks(a, transpose(s), [1, 128]), "
                 "transpose(scale_blocks(b, t, [1, 128, 128])), o) + "
                 "gather(e, group_ids(o, [R])))",
                 {{{"R", 6}}}),
            "");
}

TEST(RegionGraph, RowsThatAnIndexNamesComeBack) {
  EXPECT_EQ(lost("x: bf16[9, 8], i: s32[R], w: bf16[3, 8, 32], o: s32[3], e: bf16[3, 32], "
                 "g: s64[R], s: f32[4, 1]",
                 "h = grouped_matmul(gather(x, i), w, o) + gather(e, g)\n"
                 "return silu(h[:, ::2]) * h[:, 1::2] * gather(s, g)",
                 {{{"R", 6}}}),
            "");
}

TEST(RegionGraph, RowsOfGroupsComeBack) {
  EXPECT_EQ(lost("x: bf16[R, 8], w: bf16[3, 8, 32], o: s32[3], e: bf16[3, 32], s: f32[3, 1]",
                 "g = group_ids(o, [R])\nh = grouped_matmul(x, w, o) + gather(e, g)\n"
                 "return silu(h[:, ::2]) * h[:, 1::2] * gather(s, g)",
                 {{{"R", 6}}}),
            "");
}

TEST(RegionGraph, WeightsInMxFp4ComeBack) {
  EXPECT_EQ(lost("x: bf16[R, 64], w: u8[3, 96, 32], u: u8[3, 96, 2], o: s32[3]",
                 "h = grouped_matmul(x, transpose(mxfp4(w, u)), o)\n"
                 "return silu(h[:, ::2]) * h[:, 1::2]",
                 {{{"R", 6}}}),
            "");
}

TEST(RegionGraph, WeightsInIntegersComeBack) {
  EXPECT_EQ(lost("x: f16[R, 64], w: s8[3, 96, 64], u: f16[3, 96, 1], o: s32[3]",
                 "return silu(grouped_matmul(x, transpose(decode(w, u, bits=8, dtype=f16)), o))",
                 {{{"R", 6}}}),
            "");
}

TEST(RegionGraph, SymbolsStridesAndConstantsComeBack) {
  const ir::SymbolValues symbols = {{"M", 5}, {"N", 16}, {"K", 8}};
  EXPECT_EQ(lost("a: bf16[M, K], b: bf16[N, K], c: bf16[N]",
                 "return silu(a @ transpose(b) + c) * 0.125", {symbols}),
            "");
  EXPECT_EQ(lost("a: bf16[M, K; 3*K, 1], b: bf16[K, N]", "return a @ b", {symbols}), "");
  EXPECT_EQ(lost("x: f16[4, 40], b: f16[8, 6]", "return relu(x[:, 3:11] @ b)"), "");
  EXPECT_EQ(lost("a: bf16[4, 8], b: bf16[8, 32]", "h = a @ b\nreturn silu(h[:, :16]) * h[:, 16:]"),
            "");
}

// Unnamed values are called v and their number, which others may be called too.
TEST(RegionGraph, NamesThatMeet) {
  for (int number = 2; number < 8; ++number) {
    const std::string name = "v" + std::to_string(number);
    EXPECT_EQ(lost("a: f32[4, 8], " + name + ": f32[8, 8]",
                   "return relu(sum(a, axes=[1], keepdims=true) * a @ " + name + ")"),
              "")
        << name;
    EXPECT_EQ(lost("a: f32[4, 8], b: f32[8, 8], " + name + ": f32[4, 1]",
                   "return a @ b + sum(a, axes=[1], keepdims=true) + " + name),
              "")
        << name;
  }
}

TEST(RegionGraph, WhatIsNoProblemIsAnError) {
  EXPECT_FALSE(problem::read_problem({"nonsense", {}, ir::Mode::Fp32, {}}));
  const auto two = problem::read_problem(
      {"graph g(a: f32[4, 8]) {\n  return sum(a, axes=[0])\n}\n", {}, ir::Mode::Fp32, {}});
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().what, "the problem has 1 regions");
}

}  // namespace
}  // namespace attacca::tune
