// Products of 8-bit floats whose blocks of 128 have scales: every template that takes them and the
// unfused path, at ragged shapes, with any epilogue.
#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "ir/text/text.hpp"
#include "launch/candidate.hpp"
#include "run/check/random_inputs.hpp"
#include "support/check.hpp"

namespace attacca::testing {
namespace {

constexpr Extents kShapes[] = {
    {1, 64, 64},     {17, 136, 80},    {129, 264, 208}, {130, 96, 1104},
    {64, 1024, 512}, {33, 7, 160},     {257, 513, 144}, {5, 129, 31},
    {1, 1, 1},       {300, 272, 2064}, {9, 40, 384},    {16, 640, 4096},
};

struct Form {
  const char *inputs, *result;
};
constexpr Form kForms[] = {
    {"", "y"},
    {", bias: bf16[N]", "cast(silu(y + bias), bf16)"},
    {", r: f16[M, N], t: f32[M, 1]", "cast(y * t, f16) + r"},
    {", s: f32[]", "cast(gelu(y) * s, f8e4m3, saturate=true)"},
};

int64_t blocks(int64_t extent) {
  return (extent + 127) / 128;
}

std::string replaced(std::string text, const Extents& e) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"NB", blocks(e.n)}, {"KB", blocks(e.k)}, {"N", e.n}, {"K", e.k}};
  for (const auto& [name, size] : sizes)
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, std::string(name).size(), std::to_string(size));
  return text;
}

// `along_m`: the scales of A are (K / 128, M).
std::string graph_text(const Form& form, const Extents& e, const char* a, const char* b,
                       bool along_m) {
  return replaced(fmt::format("graph g(a: {}[M, K], b: {}[N, K], u: f32[{}], v: f32[NB, KB]{}) {{\n"
                              "  y = dequantize(a, {}, block=[1, 128]) @ "
                              "transpose(dequantize(b, v, block=[128, 128]))\n"
                              "  return {}\n}}",
                              a, b, along_m ? "KB, M" : "M, KB", form.inputs,
                              along_m ? "transpose(u)" : "u", form.result),
                  e);
}

Case case_of(const std::string& text, int64_t m, uint64_t seed,
             const std::function<void(ir::Bindings&)>& change = {}) {
  auto graph = ir::parse_graph(text, "case");
  ATTACCA_CHECK(graph.has_value(), text + to_string(graph.error()));
  auto inputs = run::random_inputs(*graph, {{"M", m}}, seed);
  ATTACCA_CHECK(inputs.has_value(), "no inputs");
  if (change) change(*inputs);
  auto made = make_case(*graph, {{"M", m}}, ir::Mode::Fp32, *std::move(inputs));
  ATTACCA_CHECK(made.has_value(), text + to_string(made.error()));
  ATTACCA_CHECK(made->problem.views.products[0].scales.has_value(), text + "no scaled blocks");
  return *std::move(made);
}

const std::vector<Prepared>& cases() {
  static const std::vector<Prepared> made = [] {
    constexpr size_t kCount = std::size(kShapes) * std::size(kForms);
    std::vector<Prepared> prepared(kCount);
    in_parallel(kCount, [&](int i) {
      const auto index = static_cast<size_t>(i);
      const Extents& extents = kShapes[index % std::size(kShapes)];
      const Form& form = kForms[index / std::size(kShapes)];
      Prepared& to = prepared[index];
      to.name = graph_text(form, extents, index % 5 == 3 ? "f8e5m2" : "f8e4m3",
                           index % 7 == 2 ? "f8e5m2" : "f8e4m3", index % 3 == 1);
      to.each = case_of(to.name, extents.m, index + 1);
      to.reference = make_reference(*to.each);
    });
    return prepared;
  }();
  return made;
}

std::vector<std::string> scaling_templates() {
  std::vector<std::string> names;
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.scaled_blocks && !each.grouped) names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

class ScaledBlocks : public ::testing::TestWithParam<std::string> {};

// Tensor cores add the products of a block with about 14 bits of the largest one.
TEST_P(ScaledBlocks, AreAsExactAsTheirAccumulation) {
  run_all(GetParam(), cases(), [](const Prepared& prepared, const auto& outputs) {
    return compare_with_reference(prepared.reference, outputs, 0x1p-11);
  });
}

INSTANTIATE_TEST_SUITE_P(Gpu, ScaledBlocks, ::testing::ValuesIn(scaling_templates()),
                         template_test_name);

// On the unfused path and every template that takes it, bit for bit.
void expect_exact(const Case& each) {
  const Reference reference = make_reference(each);
  size_t ran = 0;
  for (const std::string& kernel : scaling_templates()) {
    if (!kernel.empty() && is_refused(each, kernel)) continue;
    const launch::Candidate candidate = candidate_of(kernel);
    const auto outputs = run_candidate(each, candidate);
    ASSERT_TRUE(outputs) << to_string(candidate) << to_string(outputs.error());
    EXPECT_EQ("", compare_bits(*outputs, reference.unfused)) << to_string(candidate);
    ++ran;
  }
  EXPECT_GE(ran, 2u);
}

// Whole numbers and powers of two, so that every order of summation gives the same.
void fill_exactly(ir::Bindings& inputs) {
  std::mt19937 random(11);
  for (auto& [name, tensor] : inputs)
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.set_number(i, name == "a" || name == "b"
                               ? static_cast<double>(random() % 5) - 2
                               : std::ldexp(1, static_cast<int>(random() % 3)));
}

TEST(ScaledBlocksEdges, ZeroNanAndExtremeScalesStayInTheirBlocks) {
  const Extents extents{70, 300, 400};
  expect_exact(case_of(graph_text(kForms[0], extents, "f8e4m3", "f8e4m3", false), extents.m, 3,
                       [](ir::Bindings& inputs) {
                         fill_exactly(inputs);
                         ir::Tensor &u = inputs.at("u"), &v = inputs.at("v");
                         u.set_number(4 * 3 + 1, NAN);
                         u.set_number(4 * 5 + 2, 0);
                         for (int64_t k = 0; k < 4; ++k) {
                           u.set_number(4 * 9 + k, 0x1p-100);
                           u.set_number(4 * 11 + k, 0x1p100);
                           u.set_number(4 * 13 + k, 0);
                           v.set_number(4 + k, 0x1p-20);
                         }
                         v.set_number(1, 0);
                         u.set_number(4 * 17, -1);
                       }));
}

TEST(ScaledBlocksEdges, NanFactorsAndOnesOfAllZeros) {
  const Extents extents{70, 144, 272};
  expect_exact(case_of(graph_text(kForms[0], extents, "f8e4m3", "f8e5m2", true), extents.m, 3,
                       [&](ir::Bindings& inputs) {
                         fill_exactly(inputs);
                         inputs.at("a").set_number(3 * extents.k + 5, NAN);
                         for (int64_t k = 0; k < extents.k; ++k)
                           inputs.at("b").set_number(7 * extents.k + k, 0);
                       }));
}

TEST(ScaledBlocksEdges, BatchesOfRows) {
  const Extents extents{70, 144, 272};
  const std::string text = replaced(
      "graph g(a: f8e4m3[3, M, K], b: f8e4m3[N, K], u: f32[3, M, KB], v: f32[NB, KB]) {\n"
      "  return cast(dequantize(a, u, block=[1, 1, 128]) @ "
      "transpose(dequantize(b, v, block=[128, 128])), bf16)\n}",
      extents);
  expect_exact(case_of(text, extents.m, 3, fill_exactly));
}

TEST(ScaledBlocksEdges, AmaxComesWithTheResult) {
  const Extents extents{70, 144, 272};
  const Form form{"", "cast(y, f8e4m3, saturate=true), amax(y)"};
  expect_exact(
      case_of(graph_text(form, extents, "f8e4m3", "f8e4m3", false), extents.m, 3, fill_exactly));
}

}  // namespace
}  // namespace attacca::testing
