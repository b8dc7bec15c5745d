// Every template for gates on every gate, layout of weights and kind of shape: right, or refused
// with a reason.
#include <gtest/gtest.h>
#include <tuple>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "ir/text/text.hpp"
#include "launch/candidate.hpp"
#include "run/check/random_inputs.hpp"
#include "support/check.hpp"
#include "tune/candidates.hpp"

namespace attacca::testing {
namespace {

using launch::Candidate;
using launch::CandidateKind;

constexpr Extents kShapes[] = {
    {1, 64, 64},   {17, 136, 72},   {129, 264, 200}, {130, 96, 1096}, {16, 1024, 512},
    {64, 200, 64}, {257, 520, 136}, {2, 8, 8},       {1, 1, 1},       {33, 7, 13},
    {5, 129, 31},  {300, 128, 256}, {1, 515, 5000},  {4, 77, 2056},
};

// c: the gate clamped.
constexpr const char* kGptOss = "c * sigmoid(1.702 * c) * (clamp(q, min=-7.0, max=7.0) + 1.0)";

// The expressions of p, the gate, and q, the other product.
struct Gate {
  const char* name;
  const char* result;
  ir::DType dtype = ir::DType::BF16;
  ir::Mode mode = ir::Mode::Fp32;
};
constexpr Gate kGates[] = {
    {"swiglu", "silu(p) * q"},
    {"geglu", "gelu(p) * q"},
    {"geglu_tanh", "gelu_tanh(p) * q"},
    {"reglu", "relu(p) * q"},
    {"gpt_oss", kGptOss},
    {"biases", "silu(p + x) * (q + y)"},
    {"residual", "silu(p + x) * q * 0.5 + r"},
    {"f32", "silu(cast(p, f32)) * cast(q, f32)", ir::DType::F32},
    {"swiglu_eager", "silu(p) * q", ir::DType::BF16, ir::Mode::Eager},
    {"gpt_oss_eager", kGptOss, ir::DType::BF16, ir::Mode::Eager},
    {"residual_eager", "silu(p + x) * q * 0.5 + r", ir::DType::BF16, ir::Mode::Eager},
};

// {0}: the input's dtype, {1}: n, {2}: 2 n, {3}: k.
struct Layout {
  const char* name;
  const char* weights;
  const char* products;
};
constexpr Layout kLayouts[] = {
    {"two", "v: {0}[{1}, {3}], w: {0}[{1}, {3}]", "p = a @ transpose(v); q = a @ transpose(w)"},
    {"halves", "w: {0}[{2}, {3}]", "h = a @ transpose(w); p = h[:, :{1}]; q = h[:, {1}:]"},
    {"up_first", "w: {0}[{2}, {3}]", "h = a @ transpose(w); q = h[:, :{1}]; p = h[:, {1}:]"},
    {"rows", "w: {0}[{2}, {3}]", "h = a @ transpose(w); p = h[:, ::2]; q = h[:, 1::2]"},
    {"two_kn", "v: {0}[{3}, {1}], w: {0}[{3}, {1}]", "p = a @ v; q = a @ w"},
    {"halves_kn", "w: {0}[{3}, {2}]", "h = a @ w; p = h[:, :{1}]; q = h[:, {1}:]"},
    {"columns", "w: {0}[{3}, {2}]", "h = a @ w; p = h[:, ::2]; q = h[:, 1::2]"},
};

std::string graph_text(const Gate& gate, const Layout& layout, ir::DType input,
                       const Extents& extents) {
  const auto filled = [&](const char* pattern) {
    return fmt::format(fmt::runtime(pattern), name(input), extents.n, 2 * extents.n, extents.k);
  };
  const std::string result = gate.result;
  std::string body = filled(layout.products) + "\n";
  if (result == kGptOss) body += "c = clamp(p, max=7.0)\n";
  const auto reads = [&](const char* operand) { return result.find(operand) != std::string::npos; };
  std::string operands;
  if (reads("+ x")) operands += fmt::format(", x: {}[{}]", name(input), extents.n);
  if (reads("+ y")) operands += fmt::format(", y: {}[{}]", name(input), extents.n);
  if (reads("+ r")) operands += fmt::format(", r: {}[{}, {}]", name(input), extents.m, extents.n);
  return fmt::format("graph gate(a: {}[{}, {}], {}{}) {{\n{}return {}\n}}\n", name(input),
                     extents.m, extents.k, filled(layout.weights), operands, body, result);
}

Prepared prepare(const Gate& gate, const Layout& layout, ir::DType input, const Extents& extents,
                 uint64_t seed) {
  const std::string text = graph_text(gate, layout, input, extents);
  auto graph = ir::parse_graph(text);
  ATTACCA_CHECK(graph.has_value(), text + to_string(graph.error()));
  auto inputs = run::random_inputs(*graph, {}, seed);
  ATTACCA_CHECK(inputs.has_value(), "no inputs");
  auto each = make_case(*graph, {}, gate.mode, *std::move(inputs));
  ATTACCA_CHECK(each.has_value(), text + to_string(each.error()));
  ATTACCA_CHECK(each->problem.factors().size() == 2, text + "no gate");
  Prepared prepared;
  prepared.name =
      fmt::format("{} {} {} {}", gate.name, layout.name, name(input), to_string(extents));
  prepared.reference = make_reference(*each);
  prepared.each = *std::move(each);
  return prepared;
}

// Every gate on every layout; the shapes and input dtypes take turns, so that each layout meets
// all.
const std::vector<Prepared>& cases() {
  static const std::vector<Prepared> made = [] {
    const size_t shapes = std::size(kShapes), layouts = std::size(kLayouts);
    const size_t count = std::size(kGates) * layouts * 4;
    std::vector<Prepared> prepared(count);
    in_parallel(static_cast<int>(count), [&](int i) {
      const auto index = static_cast<size_t>(i);
      const size_t gate = index / 4 / layouts, layout = index / 4 % layouts;
      const size_t shape = (index % 4 * 3 + gate + 2 * layout) % shapes;
      prepared[index] = prepare(kGates[gate], kLayouts[layout],
                                (index + gate) % 2 == 0 ? ir::DType::BF16 : ir::DType::F16,
                                kShapes[shape], index + 1);
    });
    return prepared;
  }();
  return made;
}

std::vector<std::string> gate_templates() {
  std::vector<std::string> names;
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.hole.accumulators == 2 && each.input_types.front() == ir::DType::BF16 && !each.grouped)
      names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

class Gates : public ::testing::TestWithParam<std::string> {};

TEST_P(Gates, ComputeEveryCaseRightOrRefuseIt) {
  run_all(GetParam(), cases(), 0x1p-7);
}

INSTANTIATE_TEST_SUITE_P(Gpu, Gates, ::testing::ValuesIn(gate_templates()), template_test_name);

// Run-time variants of the schedules on a problem of many tiles, one of few rows, one of batches.
TEST(GateVariants, ComputeTheSame) {
  constexpr Gate kGate = {"residual", "silu(p + x) * q * 0.5 + r"};
  const auto& info = toolbox()->device().info();
  for (const Extents& extents : {Extents{1030, 2056, 264}, Extents{16, 4096, 2048}}) {
    const Prepared prepared = prepare(kGate, kLayouts[0], ir::DType::BF16, extents, 7);
    for (const Candidate& base :
         tune::fused_candidates(prepared.each->problem, toolbox()->catalog(), info).ranked)
      for (const Candidate& variant : tune::variants(base, *toolbox()->catalog().find(base.kernel),
                                                     prepared.each->problem, info)) {
        const auto outputs = run_candidate(*prepared.each, variant);
        ASSERT_TRUE(outputs) << to_string(variant) << to_string(outputs.error());
        EXPECT_EQ("", compare_with_reference(prepared.reference, *outputs))
            << to_string(variant) << " " << to_string(extents);
      }
  }
}

constexpr const char* kTails[] = {"silu(p) * q", "gelu(p) * q",
                                  "clamp(p, max=7.0) * sigmoid(1.702 * clamp(p, max=7.0)) * "
                                  "(clamp(q, min=-7.0, max=7.0) + 1.0)"};

// A tail and the type of what it reads. Tests of their own, since each assembles every gate.
class GateEager : public ::testing::TestWithParam<std::tuple<const char*, ir::DType>> {};

// In eager mode a gate gives the bits that its tail gives from the products that the kernel stores.
TEST_P(GateEager, BitsAreThoseOfTheTailAlone) {
  const auto& [tail, dtype] = GetParam();
  const std::string t(name(dtype));
  const auto graph = ir::parse_graph(
      "graph g(a: " + t + "[130, 96], v: " + t + "[136, 96], w: " + t + "[136, 96]) {\n" +
      "p = a @ transpose(v); q = a @ transpose(w)\nreturn " + tail + ", p, q\n}\n");
  ASSERT_TRUE(graph) << to_string(graph.error());
  const auto each = make_case(*graph, {}, ir::Mode::Eager, *run::random_inputs(*graph, {}, 9));
  ASSERT_TRUE(each) << to_string(each.error());
  const auto alone = ir::parse_graph("graph t(p: " + t + "[130, 136], q: " + t +
                                     "[130, 136]) {\nreturn " + tail + "\n}\n");
  ASSERT_TRUE(alone) << to_string(alone.error());
  const auto ranked =
      tune::fused_candidates(each->problem, toolbox()->catalog(), toolbox()->device().info())
          .ranked;
  EXPECT_FALSE(ranked.empty());
  for (const Candidate& candidate : ranked) {
    const auto outputs = run_candidate(*each, candidate);
    ASSERT_TRUE(outputs) << to_string(candidate) << to_string(outputs.error());
    const auto second =
        make_case(*alone, {}, ir::Mode::Eager, {{"p", (*outputs)[1]}, {"q", (*outputs)[2]}});
    ASSERT_TRUE(second) << to_string(second.error());
    const auto want = run_candidate(*second, Candidate{});
    ASSERT_TRUE(want) << to_string(want.error());
    EXPECT_EQ("", compare_bits({(*outputs)[0]}, *want)) << to_string(candidate) << " " << tail;
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, GateEager,
                         ::testing::Combine(::testing::ValuesIn(kTails),
                                            ::testing::Values(ir::DType::BF16, ir::DType::F16)));

TEST(GateBatches, ComputeEveryMatrix) {
  const std::string text =
      "graph g(a: bf16[3, 65, 72], v: bf16[3, 136, 72], w: bf16[3, 136, 72]) {\n"
      "return silu(a @ permute(v, [0, 2, 1])) * (a @ permute(w, [0, 2, 1]))\n}\n";
  const auto graph = ir::parse_graph(text);
  ASSERT_TRUE(graph) << to_string(graph.error());
  const auto each = make_case(*graph, {}, ir::Mode::Fp32, *run::random_inputs(*graph, {}, 3));
  ASSERT_TRUE(each) << to_string(each.error());
  std::vector<Candidate> candidates = {Candidate{}};
  for (const Candidate& fused :
       tune::fused_candidates(each->problem, toolbox()->catalog(), toolbox()->device().info())
           .ranked)
    candidates.push_back(fused);
  EXPECT_GT(candidates.size(), 1u);
  for (const Candidate& candidate : candidates) {
    const auto outputs = run_candidate(*each, candidate);
    ASSERT_TRUE(outputs) << to_string(candidate) << to_string(outputs.error());
    EXPECT_EQ("", compare_with_reference(*each, *outputs)) << to_string(candidate);
  }
}

}  // namespace
}  // namespace attacca::testing
