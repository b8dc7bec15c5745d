// Products of one input that are joined give what they gave apart: against the interpreter's f64 of
// the graph as it was written.
#include <cmath>
#include <random>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "ir/interpret/interpreter.hpp"
#include "ir/text/text.hpp"
#include "run/check/error_bound.hpp"
#include "run/check/random_inputs.hpp"
#include "run/pipeline.hpp"

namespace attacca::run {
namespace {

using ir::DType;
using ir::Tensor;

// The graph with each input whose name begins with w or b as a constant of random numbers.
ir::Graph with_constants(const ir::Graph& graph) {
  ir::Graph result;
  std::vector<ir::Value> moved;
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, 0.5);
  for (const ir::Node& node : graph.nodes()) {
    const bool constant = node.op == ir::Op::Input && (node.name[0] == 'w' || node.name[0] == 'b');
    if (!constant) {
      moved.push_back(*ir::copy_moved(result, node, moved));
      if (node.op != ir::Op::Input && !node.name.empty()) {
        EXPECT_TRUE(result.set_name(moved.back(), node.name));
      }
      continue;
    }
    std::vector<int64_t> shape;
    for (const ir::Dim& dim : node.type.shape) shape.push_back(dim.value());
    Tensor tensor = *Tensor::make(node.type.dtype, std::move(shape));
    for (int64_t i = 0; i < tensor.size(); ++i)
      if (ir::is_float(node.type.dtype))
        tensor.set_number(i, normal(random));
      else
        tensor.set_integer(i, static_cast<int64_t>(random() % 256) - 128);
    moved.push_back(result.constant(std::move(tensor)));
  }
  for (const ir::Output& output : graph.outputs())
    result.add_output(moved[output.value.id], output.name);
  return result;
}

struct Case {
  std::string inputs, body;
  size_t products;  // of the CPU's plan
  size_t on_a_gpu = 3;
};

const std::string kHeads =
    "a = permute(reshape(q, [B, S, 2, 8]), [0, 2, 1, 3])\n"
    "b = permute(reshape(k, [B, S, 2, 8]), [0, 2, 3, 1])\n"
    "c = permute(reshape(v, [B, S, 2, 8]), [0, 2, 1, 3])\n"
    "return permute(softmax((a @ b) * 0.3) @ c, [0, 2, 1, 3])\n";

// Attention of two heads.
std::string attention(bool biases, bool transposed) {
  std::string body;
  for (const std::string name : {"q", "k", "v"})
    body += fmt::format("{0} = x @ {1}{2}\n", name,
                        transposed ? "transpose(w" + name + ")" : "w" + name,
                        biases ? " + b" + name : "");
  return body + kHeads;
}

std::string inputs_of(const std::string& dtype, bool biases, bool transposed) {
  std::string inputs = fmt::format("x: {}[B, S, 24]", dtype);
  for (const std::string name : {"q", "k", "v"}) {
    inputs += fmt::format(", w{}: {}[{}]", name, dtype, transposed ? "16, 24" : "24, 16");
    if (biases) inputs += fmt::format(", b{}: {}[16]", name, dtype);
  }
  return inputs;
}

size_t products_of(const fuse::Partition& partition) {
  size_t count = 0;
  for (const fuse::Region& region : partition.regions) count += region.gemms.size();
  return count;
}

// What a GPU would compute is the same graph in f64, without a slice that is copied.
void expect_same_graph(const ir::Graph& graph, const Case& each, const ir::Bindings& inputs) {
  const Target h200 = Target::cuda(gpu::Device::described(*gpu::known_device("h200")));
  const auto prepared = prepare(graph, h200);
  ASSERT_TRUE(prepared) << to_string(prepared.error());
  EXPECT_EQ(products_of(*prepared->partition), each.on_a_gpu) << each.body;
  for (const fuse::Region& region : prepared->partition->regions)
    EXPECT_TRUE(region.kind != fuse::RegionKind::Single ||
                prepared->graph()[region.nodes[0]].op != ir::Op::Slice)
        << each.body;
  const auto want = ir::interpret(graph, inputs), got = ir::interpret(prepared->graph(), inputs);
  ASSERT_TRUE(want && got) << each.body;
  for (int64_t i = 0; i < (*want)[0].size(); ++i)
    ASSERT_NEAR((*got)[0].number_at(i), (*want)[0].number_at(i),
                1e-6 * (1 + std::fabs((*want)[0].number_at(i))))
        << each.body;
}

void check(const Case& each, const ir::SymbolValues& sizes) {
  const std::string text = "graph g(" + each.inputs + ") {\n" + each.body + "}\n";
  const auto parsed = ir::parse_graph(text);
  ASSERT_TRUE(parsed) << text << to_string(parsed.error());
  const ir::Graph graph = with_constants(*parsed);
  const auto inputs = random_inputs(graph, sizes, 3);
  ASSERT_TRUE(inputs) << to_string(inputs.error());
  expect_same_graph(graph, each, *inputs);
  const auto compiled = compile(graph, Target::cpu());
  ASSERT_TRUE(compiled) << to_string(compiled.error());
  EXPECT_EQ(products_of(*compiled->prepared.partition), each.products) << text;
  const auto got = compiled->run(*inputs);
  ASSERT_TRUE(got) << to_string(got.error());
  const auto bounds = error_bounds(graph, *inputs, {});
  ASSERT_TRUE(bounds) << to_string(bounds.error());
  for (int64_t i = 0; i < (*got)[0].size(); ++i)
    ASSERT_TRUE((*bounds)[0].allows(i, (*got)[0].number_at(i)))
        << text << "element " << i << " is " << (*got)[0].number_at(i) << ", f64 says "
        << (*bounds)[0].value[static_cast<size_t>(i)];
}

TEST(JoinedProducts, OfAttention) {
  for (const std::string dtype : {"f32", "f16", "bf16"})
    for (const bool biases : {false, true})
      for (const bool transposed : {false, true})
        for (const ir::SymbolValues& sizes :
             {ir::SymbolValues{{"B", 1}, {"S", 1}}, {{"B", 1}, {"S", 7}}, {{"B", 3}, {"S", 150}}})
          check({inputs_of(dtype, biases, transposed), attention(biases, transposed), 3}, sizes);
}

TEST(JoinedProducts, OfFewerHeadsOfKeys) {
  check({"x: f32[M, 24], wq: f32[24, 32], wk: f32[24, 8], wv: f32[24, 8], bq: f32[32], bk: f32[8], "
         "bv: f32[8]",
         "q = x @ wq + bq\nk = x @ wk + bk\nv = x @ wv + bv\n"
         "a = permute(reshape(q, [M, 4, 8]), [1, 0, 2])\n"
         "return (a @ transpose(k)) @ v\n",
         3},
        {{"M", 37}});
}

TEST(JoinedProducts, OfBytesWithScalesOfColumns) {
  std::string body;
  for (const std::string name : {"q", "k", "v"})
    body += fmt::format("{0} = cast(x @ w{0}, f32) * (s * b{0}) * 0.001\n", name);
  check({"x: u8[B, S, 24], s: f32[B, S, 1], wq: s8[24, 16], wk: s8[24, 16], wv: s8[24, 16], "
         "bq: f32[16], bk: f32[16], bv: f32[]",
         body + kHeads, 3},
        {{"B", 2}, {"S", 9}});
}

TEST(JoinedProducts, ReadByElementwiseOpsOfOthers) {
  check({"x: f32[M, 24], wq: f32[24, 16], wk: f32[24, 16], wo: f32[16, 16]",
         "q = x @ wq\nk = x @ wk\nh = (q @ transpose(k)) @ q\nreturn h @ wo\n", 4, 4},
        {{"M", 21}});
}

}  // namespace
}  // namespace attacca::run
