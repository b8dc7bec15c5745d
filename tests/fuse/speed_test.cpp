// Partitions and their explanations take time close to linear in the size of the graph.
#include <algorithm>
#include <ctime>
#include <limits>

#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

using ir::Op;
using ir::Value;

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

// The processor's time for work(subject), in this process alone: others run, too.
template <class Subject, class Work>
double seconds_of(const Subject& subject, const Work& work) {
  const std::clock_t start = std::clock();
  work(subject);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

// Of which the least time counts.
#if defined(__SANITIZE_ADDRESS__)  // which takes long
constexpr int kRounds = 1;
#else
constexpr int kRounds = 3;
#endif
// Other processes use the caches, too, and can double a time of 50 ms in each of three rounds.
constexpr int kMostRounds = 12;

// Generous: sanitizer builds run it too.
constexpr double kLimit = 4.0;
// Of the times of a graph and one of half its size: 2 if they are linear, 4 if quadratic. Large
// graphs miss the caches more often.
constexpr double kRatio = 3.0;
// The inputs of one region are searched in turn, which takes half of the time at 5000 of them. The
// ratio is tested where they are few.
constexpr int kFewInputs = 600, kManyInputs = 5000;

template <class Subject, class Work>
void expect_linear(const char* name, const Subject& half, const Subject& whole, const Work& work) {
  double before = std::numeric_limits<double>::infinity(), seconds = before;
  for (int i = 0; i < kRounds || (i < kMostRounds && seconds >= kRatio * before); ++i) {
    before = std::min(before, seconds_of(half, work));
    seconds = std::min(seconds, seconds_of(whole, work));
  }
  std::printf("%s: %.3f s, %.3f s for half of it\n", name, seconds, before);
  EXPECT_LT(seconds, kLimit) << name;
  EXPECT_LT(seconds, kRatio * before) << name;
}

TEST(Speed, Partition) {
  const auto divide = [](const ir::Graph& graph) { partition(graph); };
  const auto test = [&](const char* name, const ir::Graph& half, const ir::Graph& whole) {
    const Status status = verify(partition(whole));
    EXPECT_TRUE(status) << name << ": " << to_string(status.error());
    expect_linear(name, half, whole, divide);
  };
  test("transformer", transformer(500), transformer(1000));
  test("chain", chain(5000), chain(10000));
  test("every step a result", chain(5000, true), chain(10000, true));
  test("ladder", ladder(1700), ladder(3400));
  test("wide", wide(kFewInputs), wide(2 * kFewInputs));
  const ir::Graph widest = wide(kManyInputs);
  EXPECT_TRUE(verify(partition(widest)));
  EXPECT_LT(seconds_of(widest, divide), kLimit);
}

TEST(Speed, Explanations) {
  const auto explain = [](const Partition& result) {
    const size_t size = explain_text(result).size() + json::dump(explain_json(result)).size() +
                        explain_dot(result).size();
    EXPECT_LT(size, result.graph.size() * 2000);
  };
  expect_linear("chain", partition(chain(5000)), partition(chain(10000)), explain);
  expect_linear("transformer", partition(transformer(150)), partition(transformer(300)), explain);
  expect_linear("wide", partition(wide(kFewInputs / 2)), partition(wide(kFewInputs)), explain);
  EXPECT_LT(seconds_of(partition(wide(2000)), explain), kLimit);
}

}  // namespace
}  // namespace attacca::fuse::testing
