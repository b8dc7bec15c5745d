// Partitioning stays close to linear in the size of the graph.
#include <chrono>

#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

using ir::Op;
using ir::Value;

double seconds_to_partition(const ir::Graph& graph) {
  const auto start = std::chrono::steady_clock::now();
  const Partition result = partition(graph);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const Status status = verify(result);
  EXPECT_TRUE(status) << to_string(status.error());
  return taken.count();
}

// Generous: sanitizer builds and busy machines run it too.
constexpr double kLimit = 4.0;

// Pre-norm MLP blocks with a gate and a residual.
ir::Graph transformer(int layers) {
  ir::Graph graph;
  const ir::Dim m = ir::Dim::symbol("M");
  Value x = *graph.input("x", {ir::DType::BF16, {m, 64}});
  for (int i = 0; i < layers; ++i) {
    const auto weight = [&](const char* name, ir::Shape shape) {
      return *graph.input(name + std::to_string(i), {ir::DType::BF16, std::move(shape)});
    };
    const Value scale = *graph.add(Op::Mean, {*graph.add(Op::Square, {x})}, over_axes({1}, true));
    const Value h = *graph.add(Op::Mul, {x, *graph.add(Op::Rsqrt, {scale})});
    const Value g = *graph.add(Op::MatMul, {h, weight("g", {64, 256})});
    const Value u = *graph.add(Op::MatMul, {h, weight("u", {64, 256})});
    const Value a = *graph.add(Op::Mul, {*graph.add(Op::Silu, {g}), u});
    const Value d = *graph.add(Op::MatMul, {a, weight("d", {256, 64})});
    x = *graph.add(Op::Add, {d, x});
  }
  graph.add_output(x, "y");
  return graph;
}

ir::Graph chain(int length, bool all_results = false) {
  ir::Graph graph;
  Value x = *graph.input("x", {ir::DType::F32, {ir::Dim::symbol("M"), 64}});
  for (int i = 0; i < length; ++i) {
    x = *graph.add(i % 2 ? Op::Tanh : Op::Neg, {x});
    if (all_results) graph.add_output(x);
  }
  graph.add_output(x, "y");
  return graph;
}

// One sum of many operands, each from a tensor of its own.
ir::Graph wide(int width) {
  ir::Graph graph;
  const ir::Type type{ir::DType::F32, {ir::Dim::symbol("M"), 64}};
  Value sum = *graph.input("x", type);
  for (int i = 0; i < width; ++i) {
    const Value operand = *graph.input("x" + std::to_string(i), type);
    sum = *graph.add(Op::Add, {sum, *graph.add(Op::Exp, {operand})});
  }
  graph.add_output(sum, "y");
  return graph;
}

// Two long chains that read each other at every step.
ir::Graph ladder(int length) {
  ir::Graph graph;
  const ir::Type type{ir::DType::F32, {ir::Dim::symbol("M"), 64}};
  Value a = *graph.input("a", type), b = *graph.input("b", type);
  for (int i = 0; i < length; ++i) {
    const Value next = *graph.add(Op::Mul, {a, b});
    b = *graph.add(Op::Sum, {*graph.add(Op::Sub, {b, a})}, over_axes({1}, true));
    a = next;
  }
  graph.add_output(a, "y");
  return graph;
}

TEST(Speed, ExplanationsAreLinearToo) {
  for (const ir::Graph& graph : {chain(10000), wide(2000), transformer(300)}) {
    const Partition result = partition(graph);
    const auto start = std::chrono::steady_clock::now();
    const size_t size = explain_text(result).size() + json::dump(explain_json(result)).size() +
                        explain_dot(result).size();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    std::printf("%zu nodes: %zu characters, %.3f s\n", graph.size(), size, taken.count());
    EXPECT_LT(taken.count(), kLimit);
    EXPECT_LT(size, graph.size() * 2000);
  }
}

TEST(Speed, TenThousandNodes) {
  const struct {
    const char* name;
    ir::Graph graph;
  } cases[] = {{"transformer", transformer(1000)},
               {"chain", chain(10000)},
               {"every step a result", chain(10000, true)},
               {"wide", wide(5000)},
               {"ladder", ladder(3400)}};
  for (const auto& [name, graph] : cases) {
    const double seconds = seconds_to_partition(graph);
    RecordProperty(name, std::to_string(seconds));
    std::printf("%s: %zu nodes, %.3f s\n", name, graph.size(), seconds);
    EXPECT_LT(seconds, kLimit) << name;
  }
}

}  // namespace
}  // namespace attacca::fuse::testing
