// Every template at every kind of shape: right, or refused with a reason.
#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "launch/candidate.hpp"
#include "launch/unfused.hpp"
#include "support/check.hpp"
#include "tune/candidates.hpp"

namespace attacca::testing {
namespace {

using launch::Candidate;
using launch::CandidateKind;

constexpr Extents kShapes[] = {
    {1, 64, 64},     {17, 136, 72},  {129, 264, 200}, {130, 96, 1096}, {64, 1024, 512},
    {257, 520, 136}, {2, 8, 8},      {1, 1, 1},       {33, 7, 13},     {5, 129, 31},
    {128, 256, 64},  {1, 515, 5000}, {4, 77, 2056},
};

struct Form {
  const char* name;
  const char* epilogue;
  ir::DType result = ir::DType::BF16;
  ir::Mode mode = ir::Mode::Fp32;
};
constexpr Form kForms[] = {
    {"identity", "acc"},
    {"bias_silu_residual", "silu(acc + row(bias)) * full(res)"},
    {"scales", "acc * col(token: f32) * row(channel: f32) + scalar(shift: f32)"},
    {"f32_out", "relu(acc) + full(res)", ir::DType::F32},
    {"two_outputs", "gelu(acc + row(bias)), acc"},
    {"two_residuals", "acc * full(x) + full(y)"},
    {"eager", "silu(acc + row(bias)) * full(res)", ir::DType::BF16, ir::Mode::Eager},
};

// Every form, layout, dtype and shape with its reference, made once for all templates.
const std::vector<Prepared>& cases() {
  static const std::vector<Prepared> made = [] {
    struct Choice {
      const Form* form;
      bool b_is_nk;
      ir::DType input;
      Extents extents;
    };
    std::vector<Choice> choices;
    for (const Form& form : kForms)
      for (const bool b_is_nk : {true, false})
        for (const ir::DType input : {ir::DType::BF16, ir::DType::F16})
          for (const Extents& extents : kShapes)
            choices.push_back({&form, b_is_nk, input, extents});
    std::vector<Prepared> prepared(choices.size());
    in_parallel(static_cast<int>(choices.size()), [&](int i) {
      const auto& [form, b_is_nk, input, extents] = choices[i];
      run::GemmForm gemm{
          .input = input, .b_is_nk = b_is_nk, .epilogue = form->epilogue, .text = {}};
      gemm.text.results = {form->result == ir::DType::BF16 ? input : form->result};
      gemm.text.product = input;
      auto each = make_case(gemm, extents, form->mode, static_cast<uint64_t>(i + 1));
      ATTACCA_CHECK(each.has_value(), "a form that makes no region");
      prepared[i].name = fmt::format("{} {} {} {}", form->name, b_is_nk ? "nk" : "kn", name(input),
                                     to_string(extents));
      prepared[i].reference = make_reference(*each);
      prepared[i].each = *std::move(each);
    });
    return prepared;
  }();
  return made;
}

std::vector<std::string> gemm_templates() {
  std::vector<std::string> names;
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.family == templates::Family::Gemm && each.hole.accumulators == 1 &&
        each.input_types.front() == ir::DType::BF16 && each.packed_bits == 0 && !each.widened &&
        !each.grouped)
      names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

class Templates : public ::testing::TestWithParam<std::string> {};

TEST_P(Templates, ComputeEveryShapeRightOrRefuseIt) {
  run_all(GetParam(), cases(), 0x1p-8);
}

INSTANTIATE_TEST_SUITE_P(Gpu, Templates, ::testing::ValuesIn(gemm_templates()), template_test_name);

// Run-time variants of the schedules: swizzle, raster, splits.
TEST(Variants, ComputeTheSame) {
  run::GemmForm gemm{.epilogue = "silu(acc + row(bias)) * full(res)", .text = {}};
  for (const Extents& extents :
       {Extents{300, 1032, 1024}, Extents{16, 2048, 2048}, Extents{2040, 520, 72},
        Extents{8, 576, 12808}, Extents{97, 1112, 3016}, Extents{1, 2200, 9000}}) {
    auto each = make_case(gemm, extents, ir::Mode::Fp32, 7);
    ASSERT_TRUE(each) << to_string(each.error());
    const Reference reference = make_reference(*each);
    const auto& info = toolbox()->device().info();
    for (const Candidate& base :
         tune::fused_candidates(each->problem, toolbox()->catalog(), info).ranked)
      for (const Candidate& variant :
           tune::variants(base, *toolbox()->catalog().find(base.kernel), each->problem, info)) {
        const auto outputs = run_candidate(*each, variant);
        ASSERT_TRUE(outputs) << to_string(variant) << to_string(outputs.error());
        EXPECT_EQ("", compare_with_reference(reference, *outputs))
            << to_string(variant) << " " << to_string(extents);
      }
  }
}

// Tails of which the vendor library computes a part.
std::vector<run::GemmForm> divided() {
  std::vector<run::GemmForm> all;
  for (const char* epilogue :
       {"acc + row(bias)", "gelu_tanh(acc + row(bias))", "silu(acc + row(bias)) * full(res)",
        "gelu_tanh(acc + row(bias)) + full(res)"})
    all.push_back({.epilogue = epilogue, .text = {}});
  // As PyTorch's addmm sums: in f32, rounded where the sum is stored.
  const std::string sum = "cast(acc + row(bias), bf16, compute=f32)";
  for (const std::string& epilogue :
       {sum, "cast(gelu_tanh(cast(" + sum + ", f32)), bf16)",
        "cast(gelu(cast(" + sum + ", f32)), bf16)", "silu(" + sum + ") * full(res)"}) {
    all.push_back({.epilogue = epilogue, .text = {}});
    all.back().text.product = ir::DType::F32;
    all.back().text.operand = ir::DType::BF16;
  }
  return all;
}

// The part of a tail that the vendor library computes, with each algorithm that it proposes.
TEST(Unfused, ComputesTheSame) {
  for (const run::GemmForm& form : divided())
    for (const Extents& extents : {Extents{300, 1032, 1024}, Extents{16, 2048, 2048},
                                   Extents{2040, 520, 72}, Extents{8, 576, 12808}}) {
      auto each = make_case(form, extents, ir::Mode::Fp32, 11);
      ASSERT_TRUE(each) << to_string(each.error());
      ir::Tensor& bias = each->inputs.at("bias");
      bias.set_number(3, std::numeric_limits<double>::quiet_NaN());
      bias.set_number(4, std::numeric_limits<double>::infinity());
      const Reference reference = make_reference(*each);
      const auto candidates = launch::unfused_candidates(toolbox(), each->problem);
      ASSERT_TRUE(candidates) << to_string(candidates.error());
      EXPECT_GE(candidates->back().absorbed, 1) << form.epilogue << " " << to_string(extents);
      for (const Candidate& candidate : *candidates) {
        const auto outputs = run_candidate(*each, candidate);
        ASSERT_TRUE(outputs) << to_string(candidate) << to_string(outputs.error());
        EXPECT_EQ("", compare_with_reference(reference, *outputs))
            << to_string(candidate) << " " << form.epilogue << " " << to_string(extents);
      }
    }
}

TEST(Batches, ComputeEveryMatrix) {
  for (const char* epilogue : {"acc", "silu(acc + row(bias)) * full(res)"})
    for (const Extents& extents : {Extents{65, 136, 72, 3}, Extents{1, 64, 64, 5}}) {
      run::GemmForm gemm{.batched = true, .epilogue = epilogue, .text = {}};
      auto each = make_case(gemm, extents, ir::Mode::Fp32, 3);
      ASSERT_TRUE(each) << to_string(each.error());
      std::vector<Candidate> candidates = {Candidate{}};
      for (const Candidate& fused :
           tune::fused_candidates(each->problem, toolbox()->catalog(), toolbox()->device().info())
               .ranked)
        candidates.push_back(fused);
      for (const Candidate& candidate : candidates) {
        const auto outputs = run_candidate(*each, candidate);
        ASSERT_TRUE(outputs) << to_string(candidate) << to_string(outputs.error());
        EXPECT_EQ("", compare_with_reference(*each, *outputs))
            << to_string(candidate) << " " << to_string(extents);
      }
    }
}

}  // namespace
}  // namespace attacca::testing
