// The pipeline: which files load, how fast large graphs are prepared, and random inputs.
#include "run/pipeline.hpp"

#include <cmath>
#include <ctime>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "ir/text/text.hpp"
#include "run/check/compare.hpp"
#include "run/check/random_inputs.hpp"

namespace attacca::run {
namespace {

// Decomposed MLP blocks one after the other: nine nodes each.
std::string deep_graph(int blocks) {
  std::string text = "graph deep(x0: f32[M, 8], w: f32[8, 8], b: f32[8]) {\n";
  for (int i = 0; i < blocks; ++i)
    text +=
        fmt::format("  h{0} = x{0} @ w + b\n  x{1} = h{0} / (1 + exp(-h{0})) + x{0}\n", i, i + 1);
  return text + fmt::format("  return x{}\n}}\n", blocks);
}

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

TEST(Pipeline, FoldsAndFusesTenThousandNodesInASecond) {
  const auto graph = ir::parse_graph(deep_graph(1250));
  ASSERT_TRUE(graph) << to_string(graph.error());
  ASSERT_GE(graph->size(), 10000u);
  const double begin = processor_seconds();
  const auto prepared = prepare(*graph, Target::cpu());
  const double seconds = processor_seconds() - begin;
  fmt::print("{} nodes in {:.3f} s\n", graph->size(), seconds);
  ASSERT_TRUE(prepared) << to_string(prepared.error());
  EXPECT_EQ(prepared->folds.size(), 1250u);
  EXPECT_EQ(prepared->partition->regions.size(), 1250u);
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(seconds, 1.0);
#endif
}

TEST(Pipeline, EagerModeFoldsNothing) {
  const auto graph = ir::parse_graph(deep_graph(2));
  EXPECT_TRUE(prepare(*graph, Target::cpu(ir::Mode::Eager))->folds.empty());
}

TEST(Target, OfADescribedDeviceNeedsNone) {
  const auto target = Target::of({.cuda = true}, ir::Mode::Eager, false, gpu::known_device("a100"));
  ASSERT_TRUE(target) << to_string(target.error());
  EXPECT_EQ(target->device->info().capability(), 80);
  EXPECT_FALSE(target->device->is_here());
  EXPECT_FALSE(target->fuse);
  EXPECT_EQ(target->mode, ir::Mode::Eager);
  EXPECT_FALSE(Target::of({})->device);
}

TEST(Pipeline, ReportsAMissingFile) {
  EXPECT_EQ(load_graph("/no/such/file.attacca").error().what, "cannot read /no/such/file.attacca");
  EXPECT_FALSE(load_graph("/no/such/file.onnx"));
}

TEST(RandomInputs, DependOnSeedAndNameAlone) {
  const auto small = *ir::parse_graph("graph g(x: f32[4]) { return x }");
  const auto large = *ir::parse_graph("graph g(y: f32[9], x: f32[4]) { return x + y[0:4] }");
  const auto a = *random_inputs(small, {}, 7), b = *random_inputs(large, {}, 7);
  const auto c = *random_inputs(small, {}, 8);
  EXPECT_EQ(compare(a.at("x"), b.at("x")).largest, 0);
  EXPECT_GT(compare(a.at("x"), c.at("x")).largest, 0);
}

TEST(RandomInputs, IndicesStayInsideTheGather) {
  const auto graph = *ir::parse_graph(
      "graph g(table: f32[3, 2], i: s64[100]) { return gather(table, i, axis=0) }");
  EXPECT_TRUE(ir::interpret(graph, *random_inputs(graph, {}, 1)));
}

TEST(RandomInputs, AnUnboundDimensionIsNamed) {
  const auto graph = *ir::parse_graph("graph g(x: f32[M]) { return x }");
  EXPECT_EQ(random_inputs(graph, {}, 1).error().what, "dimension M has no value");
}

TEST(WeightInputs, AreReadThroughViews) {
  const auto graph = *ir::parse_graph(
      "graph g(x: f32[M, 4], w: f32[8, 4], v: f32[M, M]) { return v @ (x @ transpose(w)) }");
  const auto weights = weight_inputs(graph);
  ASSERT_EQ(weights.size(), 1u);
  EXPECT_EQ(graph[weights[0]].name, "w");
}

TEST(Compare, CountsWhatIsNotFiniteInOneOnly) {
  const auto tensor = [](std::vector<double> values) {
    return ir::Tensor::of(ir::DType::F32, {4}, values);
  };
  const Difference difference =
      compare(tensor({1, NAN, INFINITY, 4}), tensor({1.5, NAN, -INFINITY, NAN}));
  EXPECT_EQ(difference.largest, 0.5);
  EXPECT_EQ(difference.scale, 1.5);
  EXPECT_EQ(difference.mismatched_nan, 2);
}

}  // namespace
}  // namespace attacca::run
