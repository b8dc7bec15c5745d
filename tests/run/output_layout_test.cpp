// Outputs with the caller's strides: how they are passed to a GPU's kernels, and what is refused.
#include "run/shared/output_layout.hpp"

#include "gtest/gtest.h"

#include "ir/text/text.hpp"
#include "problem/problem.hpp"

namespace attacca::run {
namespace {

using Strides = std::vector<std::optional<std::vector<ir::Dim>>>;

fuse::Partition partition_of(const std::string& inputs, const std::string& body) {
  return fuse::partition(*ir::parse_graph("graph g(" + inputs + ") { " + body + " }"),
                         {.reductions = fuse::Reductions::Amax});
}

// "batch_stride row_stride,column_stride" of each output of the region that stores `output`.
std::string stored(const fuse::Partition& partition, size_t output,
                   const ir::SymbolValues& sizes = {}) {
  const ir::Value value = partition.graph.outputs()[output].value;
  for (const fuse::Region& region : partition.regions)
    for (size_t i = 0; i < region.epilogue.outputs.size(); ++i) {
      if (region.epilogue.outputs[i].result != value) continue;
      EXPECT_TRUE(epilogue::verify(region.epilogue));
      const auto problem = problem::concretize(region, partition.graph, sizes, ir::Mode::Fp32,
                                               [](ir::Value) { return 16; });
      if (!problem) return problem.error().what;
      const problem::View& view = problem->views.outputs[i];
      return std::to_string(view.batch_stride) + " " + std::to_string(view.row_stride) + "," +
             std::to_string(view.column_stride) + " of " + std::to_string(problem->m) + "x" +
             std::to_string(problem->n) + "x" + std::to_string(problem->batch);
    }
  return "nowhere";
}

TEST(OutputLayout, RowsOfWiderRows) {
  fuse::Partition plain = partition_of("a: f32[M, 8], b: f32[8, 4]", "return relu(a @ b)");
  ASSERT_TRUE(lay_out_outputs(plain, {std::vector<ir::Dim>{12, 1}}));
  EXPECT_EQ(stored(plain, 0, {{"M", 3}}), "0 12,1 of 3x4x1");
  // Batches become rows where the strides still allow it.
  const ir::Dim m = ir::Dim::symbol("M");
  for (const auto& [batch, wanted] :
       {std::pair{ir::Dim(12) * m, "0 12,1 of 15x4x1"}, {ir::Dim(100), "100 12,1 of 3x4x5"}}) {
    fuse::Partition batched = partition_of("a: f32[5, M, 8], b: f32[8, 4]", "return a @ b");
    ASSERT_TRUE(lay_out_outputs(batched, {std::vector<ir::Dim>{batch, 12, 1}}));
    EXPECT_EQ(stored(batched, 0, {{"M", 3}}), wanted);
  }
}

TEST(OutputLayout, EachOutputItsOwn) {
  fuse::Partition two =
      partition_of("a: f32[M, 8], b: f32[8, 4]", "y = a @ b; return relu(y), tanh(y)");
  ASSERT_TRUE(lay_out_outputs(two, {std::nullopt, std::vector<ir::Dim>{1, 64}}));
  EXPECT_EQ(stored(two, 0, {{"M", 3}}), "0 4,1 of 3x4x1");
  EXPECT_EQ(stored(two, 1, {{"M", 3}}), "0 1,64 of 3x4x1");
}

TEST(OutputLayout, WhatNoKernelWritesSoIsRefused) {
  const struct {
    const char *inputs, *body, *why;
  } cases[] = {
      {"a: f32[M, 8]", "return a", "repeats an input"},
      {"a: f32[M, 8]", "y = exp(a); return p = y, q = y", "repeats another output"},
      {"a: f32[M, 8], b: f32[8, 8]", "y = relu(a @ b); return y, z = tanh(y @ b)",
       "reads it again"},
      {"a: f32[M, 8]", "return sum(a, axes=[1], keepdims=true)", "writes rows one after the other"},
  };
  for (const auto& each : cases) {
    fuse::Partition partition = partition_of(each.inputs, each.body);
    const Status status = lay_out_outputs(partition, {std::vector<ir::Dim>{16, 1}});
    ASSERT_FALSE(status) << each.body;
    EXPECT_NE(status.error().what.find(each.why), std::string::npos) << status.error().what;
  }
}

}  // namespace
}  // namespace attacca::run
