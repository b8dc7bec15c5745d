// Regions of products that reduce their tiles while they are in cache, and that store behind a
// transpose, against the interpreter: within rounding of its f64 in fp32 mode, bit for bit in eager
// mode.
#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "fuse/explain/explain.hpp"
#include "ir/interpret/interpreter.hpp"
#include "ir/text/text.hpp"
#include "run/check/random_inputs.hpp"
#include "run/pipeline.hpp"
#include "run/shared/output_layout.hpp"
#include "run/unfolded.hpp"

namespace attacca::run {
namespace {

struct Case {
  const char* name;
  const char* graph;
  size_t regions;
  double roundings;  // of the result's dtype, in parts of the largest element
};

const Case kCases[] = {
    {"MeansOfRows", "x: DT[M, 24], w: DT[24, 40]) { h = x @ w; return y = mean(h, axes=[1])", 1, 1},
    {"MeansOfRowsBesideTheRows",
     "x: DT[M, 24], w: DT[24, 40]) { h = x @ w * 0.1; return h, y = mean(h, axes=[1]), z = "
     "reduce_max(h, axes=[1])",
     1, 1},
    {"TwoReductionsAroundTheRows",
     "x: DT[M, 24], w: DT[24, 40]) { h = x @ w * 0.1; return y = reduce_max(h, axes=[1]), h, z = "
     "sum(h, axes=[1])",
     1, 1},
    {"MeansOfWideRows",
     "x: DT[M, 24], w: DT[24, 1500]) { h = relu(x @ w) * 0.3; return y = mean(h, axes=[1]), z = "
     "sum(h * h, axes=[1], keepdims=true)",
     1, 1},
    {"RowsOfEachMatrix",
     "x: DT[B, M, 24], w: DT[B, 24, 40]) { h = x @ w; return y = mean(h, axes=[2]), z = "
     "amax(h, axes=[2])",
     1, 1},
    {"SumOverExperts",
     "x: DT[M, 24], w: DT[5, 24, 40], g: DT[5, M, 1]) { return y = sum(x @ w * g, axes=[0])", 1, 1},
    {"MeanOverExpertsAndRows",
     "x: DT[M, 24], w: DT[5, 24, 700]) { h = x @ w; return y = mean(h, axes=[0]), z = "
     "reduce_min(h, axes=[0]), r = sum(h, axes=[2])",
     1, 1},
    {"SomeAxesOfTheBatch",
     "x: DT[B, 3, M, 24], w: DT[3, 24, 40]) { return y = sum(x @ w, axes=[1])", 1, 1},
    {"ColumnsAndAll",
     "x: DT[M, 24], w: DT[24, 40]) { h = x @ w; return y = mean(h, axes=[0]), z = mean(h)", 1, 1},
    {"ResidualBehindATranspose",
     "h: DT[B, 40, 24], w: DT[24, M], r: DT[B, M, 40]) { return y = r + permute(h @ w, axes=[0, "
     "2, 1])",
     1, 1},
    {"ImagesBehindATranspose",
     "h: DT[B, 3, M, 24], w: DT[24, 40], s: DT[40], r: DT[B, 40, 3, M]) { return y = relu(r + "
     "permute(h @ w * s, axes=[0, 3, 1, 2]))",
     1, 1},
    {"TransposedAndNot",
     "x: DT[M, 24], w: DT[24, 40], r: DT[40, M]) { h = x @ w; return h, y = transpose(h) * r, z = "
     "transpose(transpose(h) + r)",
     1, 1},
    {"ElementwiseBehindATranspose",
     "x: DT[M, 40], r: DT[40, M]) { return y = relu(transpose(abs(x)) + r)", 1, 1},
};

class TileReduction : public ::testing::TestWithParam<Case> {};

ir::Graph graph_of(const Case& which, const std::string& dtype) {
  std::string text = std::string("graph g(") + which.graph + " }";
  for (size_t at; (at = text.find("DT")) != std::string::npos;) text.replace(at, 2, dtype);
  auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error())) << text;
  return graph ? *std::move(graph) : ir::Graph();
}

double place_of(ir::DType dtype) {
  return dtype == ir::DType::F32 ? 0x1p-20 : dtype == ir::DType::F16 ? 0x1p-10 : 0x1p-7;
}

void expect_near(const ir::Tensor& got, const ir::Tensor& want, double places) {
  ASSERT_EQ(got.shape(), want.shape());
  double largest = 0;
  for (int64_t i = 0; i < want.size(); ++i)
    largest = std::max(largest, std::fabs(want.number_at(i)));
  for (int64_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got.number_at(i), want.number_at(i), places * place_of(got.dtype()) * largest) << i;
}

TEST_P(TileReduction, IsWhatTheGraphSays) {
  const Case& which = GetParam();
  for (const char* dtype : {"f32", "bf16", "f16"})
    for (const int64_t m : {1, 7, 150})
      for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager}) {
        const ir::Graph graph = graph_of(which, dtype);
        const ir::SymbolValues sizes{{"M", m}, {"B", 4}};
        ir::Bindings inputs = *random_inputs(graph, sizes, 7);
        // Small whole numbers: products are exact, whatever the order of their sums.
        for (auto& [name, tensor] : inputs)
          for (int64_t i = 0; i < tensor.size(); ++i)
            tensor.set_number(i, std::clamp(std::round(tensor.number_at(i) * 2), -2.0, 2.0));
        const auto plan = compile(graph, Target::cpu(mode));
        ASSERT_TRUE(plan) << to_string(plan.error());
        const auto got = plan->run(inputs);
        ASSERT_TRUE(got) << to_string(got.error());
        const bool eager = mode == ir::Mode::Eager;
        const auto precision = eager ? ir::Precision::Eager : ir::Precision::Exact;
        const auto want = ir::interpret(graph, inputs, {.precision = precision});
        ASSERT_TRUE(want) << to_string(want.error());
        SCOPED_TRACE(fmt::format("{} M={} {}", dtype, m, eager ? "eager" : "fp32"));
        for (size_t i = 0; i < got->size(); ++i) {
          if (!eager) {
            expect_near((*got)[i], (*want)[i], which.roundings);
            continue;
          }
          const ir::Tensor dense = *(*want)[i].contiguous();
          ASSERT_EQ((*got)[i].size(), dense.size());
          for (int64_t k = 0; k < dense.size(); ++k)
            ASSERT_EQ((*got)[i].number_at(k), dense.number_at(k)) << i << " " << k;
        }
      }
}

TEST_P(TileReduction, IsOneRegion) {
  const auto prepared = unfolded(graph_of(GetParam(), "bf16"));
  EXPECT_EQ(prepared.partition->regions.size(), GetParam().regions)
      << fuse::explain_text(*prepared.partition);
}

INSTANTIATE_TEST_SUITE_P(Cases, TileReduction, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

// The caller's strides of a result that is stored behind a transpose.
TEST(Behind, ResultsHaveTheCallersStrides) {
  fuse::Partition partition =
      fuse::partition(*ir::parse_graph("graph g(h: f32[3, 5, 8], w: f32[8, 4], r: f32[3, 4, 5]) { "
                                       "return r + permute(h @ w, axes=[0, 2, 1]) }"),
                      Target::cpu().fuse_options());
  ASSERT_EQ(partition.regions.size(), 1U);
  ASSERT_TRUE(lay_out_outputs(partition, {std::vector<ir::Dim>{100, 20, 2}}));
  EXPECT_EQ(partition.regions[0].epilogue.outputs[0].access.strides,
            (std::vector<ir::Dim>{100, 2, 20}));
}

}  // namespace
}  // namespace attacca::run
