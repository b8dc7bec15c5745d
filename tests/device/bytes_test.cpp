// Products of bytes, s8 and u8, and of 8-bit floats: every template at ragged shapes, with the
// epilogues of quantised models. Integer accumulators are exact, so eager mode is compared bit for
// bit.
#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "ir/text/text.hpp"
#include "launch/candidate.hpp"
#include "launch/unfused.hpp"
#include "run/check/random_inputs.hpp"
#include "support/check.hpp"
#include "tune/candidates.hpp"

namespace attacca::testing {
namespace {

using ir::DType;
using launch::Candidate;
using launch::CandidateKind;

constexpr Extents kShapes[] = {
    {1, 64, 64}, {17, 136, 80},   {129, 264, 208}, {130, 96, 1104}, {64, 1024, 512},
    {33, 7, 13}, {257, 513, 144}, {5, 129, 31},    {1, 1, 1},       {300, 272, 2064},
};

struct Form {
  const char* name;
  const char* epilogue;
  DType result;
};

constexpr const char* kDequantise = "cast(acc, f32) * col(token) * row(channel)";
constexpr const char* kRequantise =
    "cast(round(cast(acc, f32) * row(scale) * scalar(inverse)) + scalar(zero), s8, saturate=true)";
// A's zero point times the sums of B's columns, B's times the sums of A's rows.
constexpr const char* kZeroPoints =
    "cast(acc - col(rows: s32) * row(zero_b: s32) - scalar(zero_a: s32) * row(columns: s32), f32) "
    "* row(scale) + row(bias: bf16)";

constexpr Form kIntegerForms[] = {
    {"raw", "acc", DType::S32},
    {"biased", "max(acc + row(bias: s32), 0)", DType::S32},
    {"dequantised", kDequantise, DType::BF16},
    {"activated", "silu(cast(acc, f32) * col(t) * row(c) + row(shift: bf16)) * full(r: bf16)",
     DType::F16},
    {"zero_points", kZeroPoints, DType::F32},
    {"requantised", kRequantise, DType::S8},
    {"requantised_twice", "cast(round(cast(acc, f32) * row(s)), u8, saturate=true), acc",
     DType::U8},
};

// Of two products of one A.
constexpr Form kIntegerGates[] = {
    {"gated", "silu(cast(acc0, f32) * row(s)) * (cast(acc1, f32) * row(t)) + row(shift: bf16)",
     DType::BF16},
    {"gated_requantised",
     "cast(round(max(cast(acc0, f32) * row(s), 0) * (cast(acc1, f32) * col(t))), s8, "
     "saturate=true)",
     DType::S8},
    {"gated_f32", "max(cast(acc0, f32) * row(s), 0) * cast(acc1, f32)", DType::F32},
};
constexpr Form kFloatGates[] = {
    {"gated", "silu(acc0 * row(s: f32)) * (acc1 * row(t: f32)) * col(c: f32)", DType::BF16},
    {"gated_to_fp8", "cast(gelu(acc0 * scalar(s: f32)) * acc1, f8e4m3, saturate=true)",
     DType::F8E4M3},
    {"gated_f32", "max(acc0 * scalar(s: f32), 0) * acc1", DType::F32},
};
constexpr run::Gate kGateLayouts[] = {run::Gate::Two, run::Gate::Halves, run::Gate::Rows};

constexpr Form kFloatForms[] = {
    {"plain", "acc", DType::BF16},
    {"f32", "acc", DType::F32},
    {"row_wise", "acc * col(scale_a: f32) * row(scale_b: f32)", DType::F16},
    {"tensor_wise", "gelu(acc * scalar(scale_a: f32) * scalar(scale_b: f32) + row(bias: bf16))",
     DType::BF16},
    {"to_fp8", "cast(silu(acc * scalar(s: f32)) * full(r: bf16), f8e4m3, saturate=true)",
     DType::F8E4M3},
    {"to_e5m2", "cast(acc * row(s: f32), f8e5m2)", DType::F8E5M2},
};

struct Choice {
  const Form* form;
  DType a, b;
  bool b_is_nk, fast;
  ir::Mode mode;
  Extents extents;
  run::Gate gate = run::Gate::None;
};

// matmul(a, b) of two dtypes and the form's epilogue.
Result<Case> make(const Choice& choice, uint64_t seed) {
  run::GemmForm form{.input = choice.a,
                     .b_is_nk = choice.b_is_nk,
                     .epilogue = choice.form->epilogue,
                     .text = {},
                     .gate = choice.gate,
                     .fast = choice.fast};
  ATTACCA_TRY_VOID(run::set_product(form));
  form.text.operand = DType::F32;
  form.text.results = {};
  if (ir::is_float(choice.form->result) && !ir::is_fp8(choice.form->result))
    form.text.results = {choice.form->result};
  ATTACCA_TRY(ir::Graph graph, run::gemm_graph(form));
  if (choice.b != choice.a) {
    // The form has one dtype; the text gives B another one.
    std::string text = ir::print_graph(graph);
    const std::string from = fmt::format("b: {}", name(choice.a));
    text.replace(text.find(from), from.size(), fmt::format("b: {}", name(choice.b)));
    ATTACCA_TRY(graph, ir::parse_graph(text, "mixed"));
  }
  const Extents& e = choice.extents;
  const ir::SymbolValues symbols = {{"M", e.m}, {"N", e.n}, {"K", e.k}};
  ATTACCA_TRY(ir::Bindings inputs, run::random_inputs(graph, symbols, seed));
  // Scales that bring full-range sums near a byte's range, sometimes beyond it.
  if (ir::is_integer(choice.a))
    for (auto& [name, tensor] : inputs)
      if (ir::is_float(tensor.dtype()))
        for (int64_t i = 0; i < tensor.size(); ++i)
          tensor.set_number(i, std::ldexp(tensor.number_at(i), -6));
  return make_case(graph, symbols, choice.mode, std::move(inputs));
}

std::vector<Prepared> prepare(const std::vector<Choice>& choices) {
  std::vector<Prepared> prepared(choices.size());
  in_parallel(static_cast<int>(choices.size()), [&](int i) {
    const Choice& choice = choices[static_cast<size_t>(i)];
    auto each = make(choice, static_cast<uint64_t>(i + 1));
    if (!each) fmt::print(stderr, "{}", to_string(each.error()));
    ATTACCA_CHECK(each.has_value(), "a form that makes no region");
    Prepared& to = prepared[static_cast<size_t>(i)];
    to.name =
        fmt::format("{} {} x {}{} {} {}", choice.form->name, name(choice.a), name(choice.b),
                    choice.b_is_nk ? "" : " kn", name(choice.mode), to_string(choice.extents));
    to.reference = make_reference(*each);
    to.each = *std::move(each);
  });
  return prepared;
}

const std::vector<Prepared>& integer_cases() {
  static const std::vector<Prepared> made = [] {
    std::vector<Choice> choices;
    for (const Form& form : kIntegerForms)
      for (const Extents& extents : kShapes)
        for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager})
          choices.push_back({&form, DType::S8, DType::S8, true, false, mode, extents});
    for (const auto& [a, b] : {std::pair{DType::U8, DType::S8}, {DType::S8, DType::U8}})
      for (const Extents& extents : {Extents{33, 72, 64}, {130, 136, 208}})
        choices.push_back({&kIntegerForms[0], a, b, true, false, ir::Mode::Eager, extents});
    for (const Form& form : kIntegerGates)
      for (const run::Gate gate : kGateLayouts)
        for (const Extents& extents : kShapes)
          choices.push_back(
              {&form, DType::S8, DType::S8, true, false, ir::Mode::Eager, extents, gate});
    for (const Extents& extents : {Extents{33, 72, 64}, {65, 130, 77}})
      choices.push_back(
          {&kIntegerForms[2], DType::S8, DType::S8, false, false, ir::Mode::Eager, extents});
    return prepare(choices);
  }();
  return made;
}

const std::vector<Prepared>& float_cases() {
  static const std::vector<Prepared> made = [] {
    constexpr auto kE4M3 = DType::F8E4M3, kE5M2 = DType::F8E5M2;
    std::vector<Choice> choices;
    for (const Form& form : kFloatForms)
      for (const Extents& extents : kShapes)
        choices.push_back({&form, kE4M3, kE4M3, true, true, ir::Mode::Fp32, extents});
    for (const Form& form : kFloatGates)
      for (const run::Gate gate : kGateLayouts)
        for (const Extents& extents : kShapes)
          choices.push_back({&form, kE4M3, kE4M3, true, true, ir::Mode::Fp32, extents, gate});
    for (const auto& [a, b] : {std::pair{kE4M3, kE5M2}, {kE5M2, kE4M3}, {kE5M2, kE5M2}})
      for (const Extents& extents : {Extents{33, 72, 64}, {130, 136, 208}})
        choices.push_back({&kFloatForms[0], a, b, true, true, ir::Mode::Fp32, extents});
    for (const Extents& extents : {Extents{33, 72, 64}, {65, 130, 77}})
      choices.push_back({&kFloatForms[2], kE4M3, kE4M3, false, true, ir::Mode::Fp32, extents});
    return prepare(choices);
  }();
  return made;
}

// The templates of two plain operands; mixed_test.cpp has those of packed weights.
std::vector<std::string> templates_of(DType dtype) {
  std::vector<std::string> names = {""};  // the unfused path
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.family == templates::Family::Gemm && each.input_types.front() == dtype &&
        !each.scaled_blocks && !each.grouped && each.packed_bits == 0)
      names.push_back(each.name);
  return names;
}

class Int8 : public ::testing::TestWithParam<std::string> {};

TEST_P(Int8, IsExactInEagerMode) {
  run_all(GetParam(), integer_cases(), [](const Prepared& prepared, const auto& outputs) {
    return prepared.each->mode == ir::Mode::Eager
               ? compare_bits(outputs, prepared.reference.unfused)
               : compare_with_reference(prepared.reference, outputs);
  });
}

INSTANTIATE_TEST_SUITE_P(Gpu, Int8, ::testing::ValuesIn(templates_of(DType::S8)),
                         template_test_name);

class Fp8 : public ::testing::TestWithParam<std::string> {};

// Tensor cores add products of 8-bit floats with about 14 bits of the largest one: those of a tile
// of k where each tile is summed by itself, else all.
TEST_P(Fp8, IsAsExactAsItsAccumulation) {
  const auto* kernel = GetParam().empty() ? nullptr : toolbox()->catalog().find(GetParam());
  const double slack = kernel && !kernel->fast_accumulation ? 0x1p-11 : 0x1p-8;
  run_all(GetParam(), float_cases(), [&](const Prepared& prepared, const auto& outputs) {
    // In a gate's product both factors have errors.
    const bool gate = prepared.each->problem.factors().size() == 2;
    return compare_with_reference(prepared.reference, outputs, gate ? 4 * slack : slack);
  });
}

INSTANTIATE_TEST_SUITE_P(Gpu, Fp8, ::testing::ValuesIn(templates_of(DType::F8E4M3)),
                         template_test_name);

// A graph of fixed inputs on the unfused path and every template that takes it.
struct Ran {
  std::string candidate;
  std::vector<ir::Tensor> outputs;
};
std::vector<Ran> run_everywhere(const Case& each) {
  std::vector<Candidate> candidates = {Candidate{}};
  for (const Candidate& fused :
       tune::fused_candidates(each.problem, toolbox()->catalog(), toolbox()->device().info())
           .ranked)
    candidates.push_back(fused);
  EXPECT_GE(candidates.size(), 2u);
  std::vector<Ran> all;
  for (const Candidate& candidate : candidates) {
    auto outputs = run_candidate(each, candidate);
    EXPECT_TRUE(outputs) << to_string(candidate) << to_string(outputs.error());
    if (outputs) all.push_back({to_string(candidate), *std::move(outputs)});
  }
  return all;
}

Case case_of(const char* text, const ir::SymbolValues& symbols,
             const std::function<void(ir::Bindings&)>& change, ir::Mode mode = ir::Mode::Fp32) {
  auto graph = ir::parse_graph(text, "case");
  ATTACCA_CHECK(graph.has_value(), "a graph that does not parse");
  auto inputs = run::random_inputs(*graph, symbols, 5);
  ATTACCA_CHECK(inputs.has_value(), "no inputs");
  change(*inputs);
  auto made = make_case(*graph, symbols, mode, *std::move(inputs));
  ATTACCA_CHECK(made.has_value(), "a graph of several regions");
  return *std::move(made);
}

void fill(ir::Tensor& tensor, double value) {
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.set_number(i, value);
}

constexpr const char* kRequantised = R"(graph g(a: s8[M, 512], b: s8[144, 512], s: f32[144]) {
  return cast(round(cast(a @ transpose(b), f32) * s), s8, saturate=true)
})";

// Sums of -128 * -128 and -128 * 127, halves that tie, scales of 0, NaN and infinity.
TEST(Int8Edges, SaturateAndRoundToEven) {
  for (const double value : {-128.0, 127.0, 0.0, 1.0})
    for (const ir::Mode mode : {ir::Mode::Eager, ir::Mode::Fp32}) {
      const Case each = case_of(
          kRequantised, {{"M", 70}},
          [&](ir::Bindings& inputs) {
            fill(inputs.at("a"), -128);
            fill(inputs.at("b"), value);
            constexpr double kScales[] = {1,        -1,          0,     NAN,
                                          INFINITY, -INFINITY,   1e-30, 0x1p-17,
                                          0x1p-16,  3 * 0x1p-17, 1e30,  5 * 0x1p-17};
            ir::Tensor& scales = inputs.at("s");
            for (int64_t i = 0; i < scales.size(); ++i)
              scales.set_number(i, kScales[static_cast<size_t>(i) % std::size(kScales)]);
          },
          mode);
      const Reference reference = make_reference(each);
      for (const Ran& ran : run_everywhere(each))
        EXPECT_EQ("", compare_bits(ran.outputs, reference.unfused))
            << ran.candidate << " " << value;
    }
}

TEST(Int8Edges, WrapAsTheReferenceDoes) {
  const Case each = case_of(R"(graph g(a: s8[M, 64], b: s8[144, 64], z: s32[144]) {
    return a @ transpose(b) * 100000 + z
  })",
                            {{"M", 70}}, [](ir::Bindings& inputs) { fill(inputs.at("z"), 2e9); });
  const Reference reference = make_reference(each);
  for (const Ran& ran : run_everywhere(each))
    EXPECT_EQ("", compare_bits(ran.outputs, reference.unfused)) << ran.candidate;
}

TEST(Int8Edges, Batches) {
  const Case each = case_of(R"(graph g(a: s8[3, M, 64], b: s8[3, 144, 64], s: f32[144]) {
    return cast(cast(a @ transpose(b), f32) * s, bf16)
  })",
                            {{"M", 70}}, [](ir::Bindings&) {}, ir::Mode::Eager);
  const Reference reference = make_reference(each);
  for (const Ran& ran : run_everywhere(each))
    EXPECT_EQ("", compare_bits(ran.outputs, reference.unfused)) << ran.candidate;
}

// 2 * 2 * 20000 needs 17 bits, which tensor cores alone do not keep.
TEST(Fp8Edges, PreciseSumsAreExactWhereF32Is) {
  const Case each = case_of(R"(graph g(a: f8e4m3[M, 20000], b: f8e4m3[144, 20000]) {
    return a @ transpose(b)
  })",
                            {{"M", 70}}, [](ir::Bindings& inputs) {
                              fill(inputs.at("a"), 2);
                              fill(inputs.at("b"), 2);
                              inputs.at("b").set_number(17, 1);
                            });
  const Reference reference = make_reference(each);
  for (const Ran& ran : run_everywhere(each))
    EXPECT_EQ("", compare_bits(ran.outputs, reference.unfused)) << ran.candidate;
}

// Whole numbers whose sums have 12 bits: exact in any accumulation.
TEST(Fp8Edges, FastSumsOfFewBitsAreExact) {
  const Case each = case_of(R"(graph g(a: f8e4m3[M, 512], b: f8e4m3[144, 512]) {
    return matmul(a, transpose(b), fast=true)
  })",
                            {{"M", 70}}, [](ir::Bindings& inputs) {
                              std::mt19937 random(3);
                              for (const char* name : {"a", "b"}) {
                                ir::Tensor& tensor = inputs.at(name);
                                for (int64_t i = 0; i < tensor.size(); ++i)
                                  tensor.set_number(i, static_cast<double>(random() % 5) - 2);
                              }
                            });
  const Reference reference = make_reference(each);
  for (const Ran& ran : run_everywhere(each))
    EXPECT_EQ("", compare_bits(ran.outputs, reference.unfused)) << ran.candidate;
}

// The largest magnitude of the result, of the kernel that computes it or of the second of the
// unfused path; the maximum starts from 0 at each launch.
TEST(Fp8Edges, AmaxComesWithTheResult) {
  for (const int64_t m : {1, 70, 300})
    for (const bool special : {false, true}) {
      const Case each = case_of(R"(graph g(a: f8e4m3[M, 512], b: f8e4m3[147, 512], s: f32[M, 1]) {
        y = matmul(a, transpose(b), fast=true) * s
        return cast(y, f8e4m3, saturate=true), amax(y)
      })",
                                {{"M", m}}, [&](ir::Bindings& inputs) {
                                  std::mt19937 random(7);
                                  for (const char* name : {"a", "b"}) {
                                    ir::Tensor& tensor = inputs.at(name);
                                    for (int64_t i = 0; i < tensor.size(); ++i)
                                      tensor.set_number(i, static_cast<double>(random() % 5) - 2);
                                  }
                                  if (special) inputs.at("s").set_number(m / 2, NAN);
                                });
      EXPECT_EQ(each.problem.views.outputs.size(), 2u);
      const Reference reference = make_reference(each);
      for (const Ran& ran : run_everywhere(each))
        EXPECT_EQ("", compare_bits(ran.outputs, reference.unfused)) << ran.candidate << " " << m;
    }
}

// NaN and infinite scales and factors, zeros, values beyond e4m3's largest.
TEST(Fp8Edges, SpecialValuesArriveWhereTheyShould) {
  for (const char* saturate : {"", ", saturate=true"}) {
    const std::string text = fmt::format(
        R"(graph g(a: f8e4m3[M, 512], b: f8e4m3[144, 512], s: f32[144], t: f32[M, 1]) {{
  return cast(a @ transpose(b) * s * t, f8e4m3{})
}})",
        saturate);
    const Case each = case_of(text.c_str(), {{"M", 70}}, [](ir::Bindings& inputs) {
      fill(inputs.at("a"), 1);
      fill(inputs.at("b"), 1);
      inputs.at("a").set_number(3 * 512 + 5, NAN);
      constexpr double kScales[] = {1, 0, NAN, INFINITY, -INFINITY, 0.875, 0.9, 1e30, -1e-30};
      ir::Tensor& scales = inputs.at("s");
      for (int64_t i = 0; i < scales.size(); ++i)
        scales.set_number(i, kScales[static_cast<size_t>(i) % std::size(kScales)]);
      fill(inputs.at("t"), 1);
      inputs.at("t").set_number(9, 0);
      inputs.at("t").set_number(11, NAN);
    });
    const Reference reference = make_reference(each);
    for (const Ran& ran : run_everywhere(each))
      EXPECT_EQ("", compare_bits(ran.outputs, reference.unfused)) << ran.candidate;
  }
}

}  // namespace
}  // namespace attacca::testing
