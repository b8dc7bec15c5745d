// Random expressions: folding terminates, keeps their values, and a second fold changes nothing.
#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <random>

#include "fmt/format.h"

#include "fold/rule.hpp"
#include "fold_testing.hpp"
#include "ir/interpret/interpreter.hpp"

namespace attacca::fold {
namespace {

using ir::Op;

// Text of random expressions: ops of the table over x, y and constants, and the rules' own patterns
// with random expressions for their variables.
class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  std::string expression(int depth) {
    if (depth == 0 || pick(8) == 0) return leaf();
    if (pick(3) == 0) return pattern(depth);
    const auto& op = ops()[pick(ops().size())];
    std::string args = expression(depth - 1);
    for (int i = 1; i < op.max_arity; ++i) args += ", " + expression(depth - 1);
    return fmt::format("{}({})", op.name, args);
  }

 private:
  // Without ops that jump, where a rounding error has a large effect, and ops that no rule has.
  static const std::vector<ir::OpInfo>& ops() {
    static const auto list = [] {
      std::vector<ir::OpInfo> list;
      for (const ir::OpInfo& info : ir::all_ops()) {
        const bool jumps = info.op == Op::Floor || info.op == Op::Ceil || info.op == Op::Round ||
                           info.op == Op::Sign || info.op == Op::Fmod || info.op == Op::Tan;
        constexpr std::array kOfNoRule = {Op::Asin, Op::Acos,  Op::Atan,  Op::Atan2, Op::Sinh,
                                          Op::Cosh, Op::Asinh, Op::Acosh, Op::Atanh};
        const bool of_no_rule = std::ranges::find(kOfNoRule, info.op) != kOfNoRule.end();
        const bool numeric = info.rule == ir::TypeRule::Any || info.rule == ir::TypeRule::Float;
        if (ir::is_elementwise(info.op) && numeric && !jumps && !of_no_rule) list.push_back(info);
      }
      return list;
    }();
    return list;
  }

  std::string leaf() {
    static const char* leaves[] = {"x", "x", "x", "y", "y", "0.5", "1", "2", "3", "0.25", "6"};
    return leaves[pick(std::size(leaves))];
  }

  std::string pattern(int depth) {
    const auto& row = rule_texts()[pick(rule_texts().size())];
    const std::string x = "(" + expression(depth - 1) + ")", y = "(" + leaf() + ")";
    std::string text;
    for (size_t i = 0; i < row.pattern.size();) {
      size_t end = i;
      while (end < row.pattern.size() &&
             (std::isalnum(row.pattern[end]) || row.pattern[end] == '_'))
        ++end;
      const std::string_view word = row.pattern.substr(i, std::max<size_t>(end - i, 1));
      text += word == "x"    ? x
              : word == "y"  ? y
              : word == "a"  ? "0.5"
              : word == "b"  ? "0.75"
              : word == "lo" ? "1.5"
              : word == "hi" ? "4"
                             : std::string(word);
      i += word.size();
    }
    return "(" + text + ")";
  }

  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  std::mt19937_64 random_;
};

const std::vector<double> kX = {-7, -2.5, -1, -0.3, 0.2, 0.9, 1.7, 4.1, 8, 20};
const std::vector<double> kY = {0.7, -1.3, 2.1, -0.4, 3.3, -2.2, 0.1, 1.1, -5, 0.6};

std::vector<ir::Tensor> run(const ir::Graph& graph) {
  const auto n = static_cast<int64_t>(kX.size());
  ir::Bindings inputs;
  for (const ir::Value input : graph.inputs())
    inputs.emplace(graph[input].name,
                   ir::Tensor::of(ir::DType::F64, {n}, graph[input].name == "x" ? kX : kY));
  auto outputs = ir::interpret(graph, inputs);
  if (!outputs) throw std::runtime_error(to_string(outputs.error()));
  return *outputs;
}

double at(const ir::Tensor& tensor, size_t i) {
  return tensor.number_at(tensor.size() == 1 ? 0 : static_cast<int64_t>(i));
}

// Only where every intermediate is of moderate size: elsewhere the values contain rounding errors
// and overflows of the formulas, which folding removes.
std::vector<bool> tame(ir::Graph graph) {
  const auto count = static_cast<uint32_t>(graph.size());
  const size_t first = graph.outputs().size();
  for (uint32_t id = 0; id < count; ++id)
    graph.add_output(ir::Value{id}, fmt::format("probe{}", id));
  const auto values = run(graph);
  std::vector<bool> result(kX.size(), true);
  for (size_t i = 0; i < kX.size(); ++i)
    for (size_t output = first; output < values.size(); ++output) {
      const double value = std::fabs(at(values[output], i));
      if (!(value == 0 || (value > 1e-4 && value < 1e5))) result[i] = false;
    }
  return result;
}

constexpr uint64_t kSeed = 20260101;

TEST(FoldRandom, KeepsValuesAndEnds) {
  int changed = 0, compared = 0;
  for (uint64_t seed = kSeed; seed < kSeed + 3000; ++seed) {
    const std::string text = Generator(seed).expression(4);
    const auto graph = ir::parse_expression(text, {ir::DType::F64, {ir::Dim::symbol("N")}});
    if (!graph || graph->inputs().empty()) continue;
    const FoldResult result = fold(*graph);
    ASSERT_TRUE(ir::verify(result.graph).has_value()) << "seed " << seed << ": " << text;
    changed += !result.applied.empty();
    const auto before = run(*graph), after = run(result.graph);
    const auto points = tame(*graph);
    for (size_t i = 0; i < kX.size(); ++i) {
      if (!points[i]) continue;
      ++compared;
      const double a = at(before[0], i), b = at(after[0], i);
      ASSERT_NEAR(a, b, 1e-5 * std::max(1.0, std::fabs(a)))
          << "seed " << seed << " at x = " << kX[i] << ", y = " << kY[i] << "\n"
          << text << "\nfolded to\n"
          << printed(result.graph);
    }
  }
  EXPECT_GT(changed, 900);
  EXPECT_GT(compared, 3000);
}

TEST(FoldRandom, FoldsAllAtOnce) {
  for (uint64_t seed = kSeed; seed < kSeed + 1000; ++seed) {
    const std::string text = Generator(seed).expression(3);
    const auto graph = ir::parse_expression(text);
    if (!graph || graph->inputs().empty()) continue;
    const ir::Graph once = fold(*graph).graph;
    EXPECT_EQ(ir::print_graph(fold(once).graph), ir::print_graph(once))
        << "seed " << seed << ": " << text;
  }
}

// Long chains, whose normal forms' coefficients drift.
TEST(FoldRandom, KeepsValuesOfDeepGraphs) {
  constexpr int kLayers = 60;
  std::string text = "graph g(x: f64[N], y: f64[N]) {\n  h0 = x * y\n  h1 = x + y\n";
  for (int i = 1; i < kLayers; ++i)
    text += fmt::format(
        "  h{2} = 0.5 * h{1} + 0.25 * (h{1} / (1 + exp(-h{1})) * max(y, 0) - h{1} * 0.5 * "
        "(erf(h{1} * 0.70710678) + 1)) * tanh(0.125 * h{0})\n",
        i - 1, i, i + 1);
  const auto graph = ir::parse_graph(text + fmt::format("  return h{}\n}}", kLayers));
  ASSERT_TRUE(graph.has_value()) << to_string(graph.error());
  const FoldResult result = fold(*graph);
  EXPECT_GE(result.applied.size(), 2u * (kLayers - 1));
  const auto before = run(*graph), after = run(result.graph);
  for (size_t i = 0; i < kX.size(); ++i)
    EXPECT_NEAR(at(after[0], i) / at(before[0], i), 1, 1e-6) << kX[i];
}

// Ten thousand nodes: layers of decomposed activations on a growing chain.
ir::Graph large_graph() {
  ir::Graph graph;
  const ir::Type type{ir::DType::F32, {ir::Dim::symbol("M"), 64}};
  auto h = *graph.input("x", type);
  const auto y = *graph.input("y", type);
  const auto number = [&](double value) { return graph.literal(value, ir::DType::F32); };
  const auto add = [&](Op op, std::vector<ir::Value> args) { return *graph.add(op, args); };
  while (graph.size() < 10000) {
    const auto e = add(Op::Exp, {add(Op::Neg, {h})});
    const auto silu = add(Op::Div, {h, add(Op::Add, {number(1), e})});
    const auto erf = add(Op::Erf, {add(Op::Mul, {h, number(0.70710678)})});
    const auto gelu =
        add(Op::Mul, {add(Op::Mul, {h, number(0.5)}), add(Op::Add, {erf, number(1)})});
    const auto gate = add(Op::Mul, {silu, add(Op::Max, {y, number(0)})});
    h = add(Op::Add, {h, add(Op::Sub, {gate, gelu})});
    h = add(Op::Mul, {h, add(Op::Min, {y, h})});
  }
  graph.add_output(h);
  return graph;
}

TEST(FoldRandom, TenThousandNodesInASecond) {
  const ir::Graph graph = large_graph();
  const std::clock_t start = std::clock();  // of the processor: other processes do not count
  const FoldResult result = fold(graph);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_GT(result.applied.size(), 1000u);
  RecordProperty("seconds", fmt::format("{:.3f}", seconds));
  fmt::print("fold of {} nodes: {:.3f} s\n", graph.size(), seconds);
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(seconds, 1.0);
#endif
}

}  // namespace
}  // namespace attacca::fold
