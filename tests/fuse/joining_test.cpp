// Products of one value by constants become one product where nothing is lost by it.
#include "fmt/format.h"
#include "fmt/ranges.h"

#include "fuse/joining/join.hpp"
#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

// A constant of ascending numbers from `first` on.
std::string numbers(const std::string& type, int count, int first) {
  std::vector<int> values;
  for (int i = 0; i < count; ++i) values.push_back(first + i);
  return fmt::format("constant({}, [{}])", type, fmt::join(values, ", "));
}

std::string weights(int k, int n, int first) {
  return numbers(fmt::format("f32[{}, {}]", k, n), k * n, first);
}

std::string list(int n, int first) {
  return numbers(fmt::format("f32[{}]", n), n, first);
}

Joined joined(const std::string& text) {
  const Joined result = join_products(partition_of(text), {});
  const Status status = verify(result.partition);
  EXPECT_TRUE(status) << (status ? "" : to_string(status.error()));
  EXPECT_TRUE(ir::verify(result.partition.graph).has_value());
  return result;
}

// A graph's regions as one text, with its products joined.
std::string regions(const std::string& body, const std::string& parameters = "x: f32[M, 2]") {
  return summary(joined(graph_text(parameters, body)).partition);
}

// What reads q, k and v of four columns each.
const std::string kAttention = "s = q @ transpose(k)\nreturn s @ v";
const std::string kPlain = "q = x @ " + weights(2, 4, 0) + "\nk = x @ " + weights(2, 4, 10) +
                           "\nv = x @ " + weights(2, 4, 20) + "\n";

size_t products(const Partition& partition) {
  size_t count = 0;
  for (const Region& region : partition.regions) count += region.gemms.size();
  return count;
}

size_t products_of(const std::string& body, const std::string& parameters = "x: f32[M, 2]") {
  return products(joined(graph_text(parameters, body)).partition);
}

// The numbers of the constant that a joined product multiplies by or adds.
std::vector<double> constant_of(const Partition& partition, ir::Value value) {
  const ir::Tensor& tensor = *partition.graph[value].tensor;
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.size(); ++i) result.push_back(tensor.number_at(i));
  return result;
}

TEST(Joining, OfThreeProductsOfOneValue) {
  EXPECT_EQ(regions(kPlain + kAttention), "gemm t2 = acc; gemm s = acc; gemm out0 = acc");
  const Joined result = joined(graph_text("x: f32[M, 2]", kPlain + kAttention));
  ASSERT_EQ(result.applied.size(), 1u);
  EXPECT_EQ(result.applied[0].rule, "joined products");
  EXPECT_EQ(result.applied[0].result, "q, k, v as slices of one f32[M, 12]");
  const Gemm& gemm = result.partition.regions[0].gemms[0];
  EXPECT_EQ(constant_of(result.partition, gemm.b.source),
            (std::vector<double>{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23,
                                 4, 5, 6, 7, 14, 15, 16, 17, 24, 25, 26, 27}));
  // What was joined is not kept.
  size_t constants = 0;
  for (const ir::Node& node : result.partition.graph.nodes()) constants += node.tensor != nullptr;
  EXPECT_EQ(constants, 1u);
}

TEST(Joining, ReadersSeeSlicesAsStrides) {
  const Partition result = joined(graph_text("x: f32[M, 2]", kPlain + kAttention)).partition;
  const Gemm &scores = result.regions[1].gemms[0], &mixed = result.regions[2].gemms[0];
  EXPECT_EQ(scores.a.access, (epilogue::Access{0, {12, 1}}));
  EXPECT_EQ(scores.b.access, (epilogue::Access{4, {1, 12}}));
  EXPECT_EQ(mixed.b.access, (epilogue::Access{8, {12, 1}}));
  EXPECT_EQ(scores.a.source, mixed.b.source);
}

TEST(Joining, OfTransposedWeightsKeepsThem) {
  const std::string text = "q = x @ transpose(" + weights(4, 2, 0) + ")\nk = x @ transpose(" +
                           weights(4, 2, 10) + ")\nreturn q @ transpose(k)";
  const Partition result = joined(graph_text("x: f32[M, 2]", text)).partition;
  ASSERT_EQ(products(result), 2u);
  const Gemm& gemm = result.regions[0].gemms[0];
  EXPECT_EQ(gemm.b.access, (epilogue::Access{0, {1, 2}}));
  EXPECT_EQ(constant_of(result, gemm.b.source),
            (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17}));
}

TEST(Joining, OfTransposedAndOtherWeights) {
  const std::string text = "q = x @ transpose(" + weights(4, 2, 0) + ")\nk = x @ " +
                           weights(2, 4, 10) + "\nreturn q @ transpose(k)";
  const Partition result = joined(graph_text("x: f32[M, 2]", text)).partition;
  ASSERT_EQ(products(result), 2u);
  EXPECT_EQ(constant_of(result, result.regions[0].gemms[0].b.source),
            (std::vector<double>{0, 2, 4, 6, 10, 11, 12, 13, 1, 3, 5, 7, 14, 15, 16, 17}));
}

TEST(Joining, OfDifferentWidths) {
  const std::string text = "q = x @ " + weights(2, 8, 0) + "\nk = x @ " + weights(2, 4, 20) +
                           "\nv = x @ " + weights(2, 4, 30) +
                           "\ns = reshape(q, [M, 2, 4]) @ transpose(k)\nreturn s @ v";
  EXPECT_EQ(products_of(text), 3u);
}

TEST(Joining, PutsBiasesAndScalesSideBySide) {
  const std::string text = "q = x @ " + weights(2, 4, 0) + " + " + list(4, 50) + "\nk = x @ " +
                           weights(2, 4, 10) + " + " + list(4, 60) + "\nreturn q @ transpose(k)";
  const Partition result = joined(graph_text("x: f32[M, 2]", text)).partition;
  EXPECT_EQ(summary(result), "gemm t4 = acc + row(t3); gemm out0 = acc");
  EXPECT_EQ(constant_of(result, result.regions[0].inputs[2]),
            (std::vector<double>{50, 51, 52, 53, 60, 61, 62, 63}));
  // One number stands for all of its columns; the same one stays as it is.
  const auto scaled = [](int one, int other) {
    return "q = x @ " + weights(2, 4, 0) + " * " + numbers("f32[]", 1, one) + "\nk = x @ " +
           weights(2, 4, 10) + " * " + numbers("f32[]", 1, other) + "\nreturn q @ transpose(k)";
  };
  const Partition rows = joined(graph_text("x: f32[M, 2]", scaled(5, 6))).partition;
  EXPECT_EQ(constant_of(rows, rows.regions[0].inputs[2]),
            (std::vector<double>{5, 5, 5, 5, 6, 6, 6, 6}));
  EXPECT_EQ(regions(scaled(5, 5)), "gemm t4 = acc * 5; gemm out0 = acc");
}

TEST(Joining, OfQuantisedProducts) {
  const auto product = [](const std::string& name, int first) {
    return name + " = cast(x @ " + numbers("s8[4, 16]", 64, first) + ", f32) * (scale * " +
           numbers("f32[16]", 16, first) + ") + " + numbers("f32[16]", 16, first) + "\n";
  };
  EXPECT_EQ(regions(product("q", 1) + product("k", 2) + product("v", 3) + kAttention,
                    "x: u8[M, 4], scale: f32[M, 1]"),
            "gemm t9 = cast(acc, f32) * (col(scale) * row(t5)) + row(t8); gemm s = acc; "
            "gemm out0 = acc");
}

TEST(Joining, OfNumbersThatDiffer) {
  const auto scaled = [](const std::string& name, int first, const std::string& number) {
    return name + " = x @ " + weights(2, 4, first) + " * " + number + "\n";
  };
  const Partition result =
      joined(graph_text("x: f32[M, 2]",
                        scaled("q", 0, "2") + scaled("k", 10, "3") + "return q @ transpose(k)"))
          .partition;
  EXPECT_EQ(constant_of(result, result.regions[0].inputs[2]),
            (std::vector<double>{2, 2, 2, 2, 3, 3, 3, 3}));
  // Each such number is one more row to load.
  const std::string body =
      scaled("q", 0, "2 + 3 - 4") + scaled("k", 10, "3 + 4 - 5") + "return q @ transpose(k)";
  EXPECT_EQ(products_of(body), 3u);
}

TEST(Joining, OfWhatIsComputedAlike) {
  const auto less = [](const std::string& name, int first) {
    return name + " = x @ " + weights(2, 4, first) + " - sum(x, axes=[1], keepdims=true) * " +
           list(4, first) + "\n";
  };
  EXPECT_EQ(products_of(less("q", 0) + less("k", 10) + less("v", 20) + kAttention), 3u);
}

TEST(Joining, SaysWhereWeightsAreNow) {
  const std::string text = "q = x @ transpose(" + weights(4, 2, 0) + ")\nk = x @ " +
                           weights(2, 4, 10) + "\nreturn q @ transpose(k)";
  const ir::Graph graph = parsed(graph_text("x: f32[M, 2]", text));
  const Joined result = join_products(partition(graph), {});
  ASSERT_EQ(result.moved.size(), 2u);
  for (const MovedConstant& moved : result.moved) {
    const auto node = std::find_if(
        graph.nodes().begin(), graph.nodes().end(),
        [&](const ir::Node& each) { return each.tensor && each.tensor->data() == moved.from; });
    ASSERT_NE(node, graph.nodes().end());
    ASSERT_EQ(moved.to.shape(), node->tensor->shape());
    const ir::Tensor dense = *moved.to.contiguous();
    for (int64_t i = 0; i < dense.size(); ++i)
      EXPECT_EQ(dense.number_at(i), node->tensor->number_at(i));
  }
}

// A graph whose constants are views of joined ones, as `moved` says.
TEST(Joining, OfWeightsThatLieSideBySideTakesNoMemory) {
  for (const bool transposed : {false, true}) {
    ir::Tensor all = *ir::Tensor::make(
        ir::DType::F32, transposed ? std::vector<int64_t>{8, 2} : std::vector<int64_t>{2, 8});
    ir::Graph graph;
    const ir::Value x = *graph.input("x", {ir::DType::F32, {ir::Dim::symbol("M"), 2}});
    std::vector<ir::Value> products;
    for (const int64_t first : {0, 4}) {
      float* const data = all.as<float>() + first * (transposed ? 2 : 1);
      ir::Value weights =
          graph.constant(transposed ? ir::Tensor::view(ir::DType::F32, {4, 2}, data)
                                    : ir::Tensor::view(ir::DType::F32, {2, 4}, data, {8, 1}));
      if (transposed) weights = *graph.add(ir::Op::Transpose, {weights});
      products.push_back(*graph.add(ir::Op::MatMul, {x, weights}));
    }
    graph.add_output(
        *graph.add(ir::Op::MatMul, {products[0], *graph.add(ir::Op::Transpose, {products[1]})}));
    const Joined result = join_products(partition(graph), {});
    ASSERT_EQ(result.applied.size(), 1u);
    EXPECT_TRUE(result.moved.empty());
    const ir::Value b = result.partition.regions[0].gemms[0].b.source;
    EXPECT_EQ(result.partition.graph[b].tensor->data(), all.data());
  }
}

TEST(Joining, WhatReadersReshapeIntoHeads) {
  const std::string heads =
      "a = permute(reshape(q, [B, S, 2, 2]), [0, 2, 1, 3])\n"
      "b = permute(reshape(k, [B, S, 2, 2]), [0, 2, 3, 1])\n"
      "c = permute(reshape(v, [B, S, 2, 2]), [0, 2, 1, 3])\n"
      "return (a @ b) @ c";
  EXPECT_EQ(products_of(kPlain + heads, "x: f32[B, S, 2]"), 3u);
}

TEST(Joining, NotWhatHasATailOfItsOwn) {
  const std::string q = "q = x @ " + weights(2, 4, 0), k = "k = x @ " + weights(2, 4, 10);
  for (const std::string& body : {
           q + "\n" + k + " + " + list(4, 0) + "\nreturn q @ transpose(k)",
           q + " * 2\n" + k + "\nreturn q @ transpose(k)",
           "q = relu(x @ " + weights(2, 4, 0) + ")\n" + k + "\nreturn q @ transpose(k)",
           q + " + r\n" + k + " + r\nreturn q @ transpose(k)",
           "q = clamp(x @ " + weights(2, 4, 0) + ", max=0)\nk = clamp(x @ " + weights(2, 4, 10) +
               ", max=-0.0)\nreturn q @ transpose(k)",
       })
    EXPECT_EQ(products_of(body, "x: f32[M, 2], r: f32[M, 4]"), 3u) << body;
}

TEST(Joining, NotGates) {
  const std::string gate =
      "return silu(x @ " + weights(2, 4, 0) + ") * (x @ " + weights(2, 4, 10) + ")";
  EXPECT_EQ(regions(gate), "gated out0 = silu(acc0) * acc1");
}

TEST(Joining, NotWhatWouldBeCopied) {
  const std::string q = "q = x @ " + weights(2, 4, 0), k = "\nk = x @ " + weights(2, 4, 10);
  for (const std::string& body : {
           q + k + "\nreturn q, k",
           q + k + "\nreturn concat(q, k, axis=0)",
           q + k + "\nreturn reshape(q, [2*M, 2]) @ transpose(reshape(k, [2*M, 2]))",
       }) {
    const Joined result = joined(graph_text("x: f32[M, 2]", body));
    EXPECT_TRUE(result.applied.empty()) << body;
  }
}

TEST(Joining, WhatIsLeftOfAGroup) {
  EXPECT_EQ(joined(graph_text("x: f32[M, 2]", kPlain + "return (q @ transpose(k)) @ v, v"))
                .applied.at(0)
                .result,
            "q, k as slices of one f32[M, 8]");
}

TEST(Joining, NotOfOtherInputsWeightsOrAlignments) {
  const std::string one = weights(2, 4, 0), other = weights(2, 4, 10);
  for (const std::string& body : {
           "return (x @ " + one + ") @ transpose(y @ " + other + ")",  // two inputs
           "return (x @ w) @ transpose(x @ " + one + ")",              // no constant
           "w1 = " + one + "\nreturn (x @ w1) @ transpose(x @ " + other + ") + sum(w1)",  // shared
           "return (x @ " + weights(2, 3, 0) + ") @ transpose(x @ " + weights(2, 3, 10) + ")",
       })
    EXPECT_EQ(products_of(body, "x: f32[M, 2], y: f32[M, 2], w: f32[2, 4]"), 3u) << body;
}

}  // namespace
}  // namespace attacca::fuse::testing
