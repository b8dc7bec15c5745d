// Softmax and norms as one kernel, against the interpreter: each form by itself, behind and in
// front of other ops, on every instruction set, at every length of a row.
#include <cmath>
#include <limits>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "ir/interpret/interpreter.hpp"
#include "ir/text/text.hpp"
#include "run/check/random_inputs.hpp"
#include "run/cpu/rows/join.hpp"
#include "run/pipeline.hpp"
#include "targets.hpp"

namespace attacca::run {
namespace {

using ir::Tensor;

const std::string kSoftmax =
    "e = exp(s - reduce_max(s, axes=[-1], keepdims=true))\n"
    "y = e / sum(e, axes=[-1], keepdims=true)\n";
const std::string kNorm =
    "c = s - mean(s, axes=[-1], keepdims=true)\n"
    "y = c * rsqrt(mean(square(c), axes=[-1], keepdims=true) + 1e-5) * w + b\n";
const std::string kRms = "y = s * rsqrt(mean(square(s), axes=[-1], keepdims=true) + 1e-6) * w\n";

struct Case {
  std::string inputs, text;
  size_t groups;  // that are one kernel
  std::string result = "y";
};

ir::Graph parse(const std::string& text) {
  auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph) << text << (graph ? "" : to_string(graph.error()));
  return graph ? *std::move(graph) : ir::Graph();
}

ir::Graph graph_of(const Case& each) {
  return parse("graph g(" + each.inputs + ") {\n" + each.text + "return " + each.result + "\n}\n");
}

size_t groups_of(const ir::Graph& graph) {
  const Prepared prepared = *prepare(graph, Target::cpu(), {});
  size_t count = 0;
  for (const CpuRegion& region : join_rows(*prepared.partition)) count += region.rows.has_value();
  return count;
}

void expect_close(const Tensor& got, const Tensor& want, double unit) {
  ASSERT_EQ(got.shape(), want.shape());
  for (int64_t i = 0; i < want.size(); ++i) {
    const double g = got.number_at(i), w = want.number_at(i);
    ASSERT_TRUE(std::isnan(w) ? std::isnan(g) : std::fabs(g - w) <= unit * (1e-2 + std::fabs(w)))
        << "element " << i << " got " << g << " want " << w;
  }
}

void check(const ir::Graph& graph, const ir::Bindings& inputs, double unit = 2e-5) {
  const Compiled compiled = *compile(graph, Target::cpu(), {});
  const auto got = compiled.run(inputs);
  ASSERT_TRUE(got) << to_string(got.error());
  const auto want = *ir::interpret(graph, inputs, {.precision = ir::Precision::Exact});
  for (size_t i = 0; i < want.size(); ++i) expect_close((*got)[i], want[i], unit);
}

ir::Bindings inputs_of(const ir::Graph& graph, const ir::SymbolValues& dims = {}) {
  return *random_inputs(graph, dims, 5);
}

TEST(Rows, AreOneKernelWhateverStandsAround) {
  const std::string x = "x: f32[2, 3, 37], w: f32[37], b: f32[37]";
  const std::string products = "q: f32[2, 9, 16], k: f32[16, 37], w: f32[37], b: f32[37]";
  const std::string product = "s = matmul(q, k) / 8\n";
  const Case cases[] = {
      {x, "s = x * 3\n" + kSoftmax, 1},
      {x, "s = x * 2 + b\n" + kSoftmax, 1},
      {products, product + kSoftmax, 1},
      {products, product + kSoftmax + "z = cast(round(y * 255), u8, saturate=true)\n", 1, "z"},
      {products, product + kSoftmax + "z = y * w\n", 1, "z"},
      {x, "s = x * 3\n" + kNorm, 1},
      {products, product + kNorm, 1},
      {products, product + kNorm + "z = y + c\n", 1, "z"},
      {x, "s = x * 3\n" + kRms, 1},
      {products, product + kRms, 1},
      {products, product + kRms + "z = y + s\n", 1, "z"},
      {x,
       "s = x + b\n" + kNorm +
           "t = exp(y - reduce_max(y, axes=[-1], keepdims=true))\n"
           "z = t / sum(t, axes=[-1], keepdims=true)\n",
       2, "z"},
      // What another op reads, or what reduces other axes, stays as it is.
      {x, "s = x * 3\n" + kSoftmax + "z = y + e\n", 0, "z"},
      {x,
       "e = exp(x - reduce_max(x, axes=[1], keepdims=true))\n"
       "y = e / sum(e, axes=[1], keepdims=true)\n",
       0},
      {x,
       "e = exp(x - reduce_max(x, axes=[2], keepdims=true))\n"
       "y = e / sum(e, axes=[1], keepdims=true)\n",
       0},
      {x, "c = x - mean(x, axes=[2], keepdims=true)\ny = mean(square(c), axes=[1, 2])\n", 0},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.text);
    const ir::Graph graph = graph_of(each);
    EXPECT_EQ(groups_of(graph), each.groups);
    check(graph, inputs_of(graph), each.text.find("u8") == std::string::npos ? 2e-5 : 1.01);
  }
}

TEST(Rows, OfEveryLengthOnEveryInstructionSet) {
  for_each_target([] {
    for (const std::string& text : {kSoftmax, kNorm, kRms}) {
      const ir::Graph graph = graph_of({"s: f32[5, N], w: f32[N], b: f32[N]", text, 1, "y"});
      for (const int64_t n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 127, 197, 1000}) {
        SCOPED_TRACE(fmt::format("{} of {}", text, n));
        check(graph, inputs_of(graph, {{"N", n}}));
      }
    }
  });
}

TEST(Rows, OfNothing) {
  for (const std::string& text : {kSoftmax, kNorm, kRms}) {
    const ir::Graph graph = graph_of({"s: f32[M, 4], w: f32[4], b: f32[4]", text, 1});
    check(graph, inputs_of(graph, {{"M", 0}}));
  }
}

TEST(Rows, KeepNanAndInfinities) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = INFINITY;
  const std::vector<std::vector<double>> specials = {{kNan},
                                                     {kInfinity},
                                                     {-kInfinity},
                                                     {kInfinity, kInfinity},
                                                     {kInfinity, -kInfinity},
                                                     {kNan, kInfinity},
                                                     {1e30, -1e30},
                                                     {-1e4, -1e9},
                                                     {3e38, 3e38}};
  for_each_target([&] {
    const ir::Graph graph = graph_of({"s: f32[1, 21]", kSoftmax, 1});
    for (const auto& values : specials)
      for (const int64_t at : {0, 15, 19}) {
        Tensor s = *Tensor::make(ir::DType::F32, {1, 21});
        for (size_t i = 0; i < values.size(); ++i)
          s.set_number(at + static_cast<int64_t>(i), values[i]);
        SCOPED_TRACE(fmt::format("{} at {}", values[0], at));
        check(graph, {{"s", s}});
      }
    Tensor hidden = *Tensor::make(ir::DType::F32, {1, 21});
    for (int64_t i = 0; i < 21; ++i) hidden.set_number(i, -kInfinity);
    check(graph, {{"s", hidden}});
  });
}

TEST(Rows, ShareMemoryOfEqualResults) {
  // The reshaped result is the same memory; the graph's own results never are.
  const ir::Graph graph = parse(
      "graph g(x: f32[4, 6], w: f32[6, 8], v: f32[16, 5]) {\n"
      "h = relu(matmul(x, w))\n"
      "r = reshape(h, [2, 16])\n"
      "z = matmul(r, v) + 1\n"
      "y = matmul(h, transpose(w))\n"
      "return z, y, h, r\n}\n");
  const ir::Bindings inputs = inputs_of(graph);
  check(graph, inputs);
  const auto got = *compile(graph, Target::cpu(), {})->run(inputs);
  EXPECT_NE(got[2].data(), got[3].data());
}

}  // namespace
}  // namespace attacca::run
