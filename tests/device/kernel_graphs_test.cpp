// Graphs with users' kernels on a device: the kernel and its tail in one launch, and one after the
// other.
#include <algorithm>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "device/harness.hpp"
#include "ir/text/text.hpp"
#include "launch/user_kernel.hpp"
#include "run/check/random_inputs.hpp"
#include "run/pipeline.hpp"

namespace attacca::testing {
namespace {

using ir::Tensor;

struct KernelGraph {
  const char* name;
  const char* inputs;
  // What the kernel computes, as a call of it and as an op that has a reference.
  const char *kernel, *reference;
  const char* tail;  // over k
  bool fuses = true;
};

std::string text_of(const KernelGraph& graph, const char* k) {
  std::string text = fmt::format("graph g({}) {{\nk = {}\n{}\n}}\n", graph.inputs, k, graph.tail);
  const std::string file = "\"user_kernels.cu\"";
  if (const size_t at = text.find(file); at != std::string::npos)
    text.replace(at, file.size(), "\"" ATTACCA_SOURCE_DIR "/tests/run/user_kernels.cu\"");
  return text;
}

constexpr const char* kScale =
    "kernel(\"user_kernels.cu\", x, f32[M, 72], s32(M), s32(72), f32(0.5), entry=scale, "
    "grid=[ceildiv(72*M, 256)], block=[256])";
constexpr const char* kAccumulate =
    "kernel(\"user_kernels.cu\", x, f32[M, 72], s32(M), s32(72), f32(0.5), entry=accumulate, "
    "grid=[ceildiv(72*M, 256)], block=[256], zeroed=true)";
constexpr const char* kScaleInputs =
    "x: f32[M, 72], row: f32[72], col: f32[M, 1], full: f32[M, 72], scalar: f32[]";
constexpr const char* kGemm =
    "kernel(\"user_kernels.cu\", x, w, bf16[M, 136], s32(M), s32(136), s32(96), "
    "entry=\"tiled_gemm<__nv_bfloat16>\", grid=[ceildiv(M, 16), 9], block=[16, 16], shared=2048)";
constexpr const char* kGemmInputs =
    "x: bf16[M, 96], w: bf16[96, 136], bias: bf16[136], res: bf16[M, 136]";

const KernelGraph kGraphs[] = {
    {"unary", kScaleInputs, kScale, "x * 0.5", "return y = silu(k)"},
    {"every_role", kScaleInputs, kScale, "x * 0.5",
     "return y = tanh(k + row) * col + full * scalar"},
    {"read_twice", kScaleInputs, kScale, "x * 0.5", "return y = k * sigmoid(k) + full"},
    {"integers", kScaleInputs, kScale, "x * 0.5", "return y = cast(relu(8 * k + row), s32)"},
    {"reshaped", kScaleInputs, kScale, "x * 0.5",
     "return y = relu(reshape(k, [M, 8, 9])) * reshape(full, [M, 8, 9])"},
    {"joins_as_far_as_sizes_are_equal", kScaleInputs, kScale, "x * 0.5",
     "return y = cast(silu(k), bf16)"},
    {"not_fused_zeroed", kScaleInputs, kAccumulate, "x * 0.5", "return y = silu(k + row)", false},
    {"gemm", kGemmInputs, kGemm, "matmul(x, w)", "return y = silu(k + bias) * res"},
    {"gemm_alone", kGemmInputs, kGemm, "matmul(x, w)", "return k", false},
    {"gemm_to_f16", kGemmInputs, kGemm, "matmul(x, w)", "return y = cast(gelu(k) + res, f16)"},
};

using Choices = std::vector<run::KnownChoice>;

Result<std::vector<Tensor>> run_graph(const ir::Graph& graph, const ir::Bindings& inputs,
                                      const run::Target& target,
                                      run::Tuning tuning = run::Tuning::Known,
                                      Choices choices = {}) {
  ATTACCA_TRY(
      const run::Compiled plan,
      run::compile(graph, target, {.cuda = {.tuning = tuning, .choices = std::move(choices)}}));
  return plan.run(inputs);
}

Result<std::vector<run::Decision>> decisions_of(const ir::Graph& graph,
                                                const ir::SymbolValues& symbols, ir::Mode mode,
                                                Choices choices = {}) {
  ATTACCA_TRY(const run::Compiled plan,
              run::compile(graph, device_target(mode), {.cuda = {.choices = std::move(choices)}}));
  ATTACCA_TRY(const auto instance, plan.cuda().instance(symbols));
  return std::vector<run::Decision>(instance->decisions().begin(), instance->decisions().end());
}

// Choices that put a tail into its kernel also where that is expected to be slow.
Result<Choices> joining(const ir::Graph& graph, const ir::SymbolValues& symbols, ir::Mode mode) {
  ATTACCA_TRY(const auto decisions, decisions_of(graph, symbols, mode));
  Choices choices;
  for (const run::Decision& decision : decisions)
    if (decision.region->kernel)
      choices.push_back({decision.key,
                         {.candidate = {.kind = launch::CandidateKind::Fused,
                                        .kernel = std::string(launch::kUserKernel)}}});
  return choices;
}

// Whether a region puts a tail into its kernel.
bool is_fused(const std::vector<run::Decision>& decisions) {
  return std::any_of(decisions.begin(), decisions.end(), [](const run::Decision& decision) {
    return decision.region->kernel && decision.candidate.kind == launch::CandidateKind::Fused;
  });
}

struct KernelGraphs : ::testing::TestWithParam<KernelGraph> {};

TEST_P(KernelGraphs, FusedAndUnfusedAreOneAndTheReference) {
  const auto graph = ir::parse_graph(text_of(GetParam(), GetParam().kernel));
  ASSERT_TRUE(graph) << to_string(graph.error());
  const auto reference = ir::parse_graph(text_of(GetParam(), GetParam().reference));
  ASSERT_TRUE(reference) << to_string(reference.error());
  for (const int64_t m : {1, 3, 17, 129, 2040}) {
    const ir::SymbolValues symbols = {{"M", m}};
    SCOPED_TRACE(fmt::format("M={}", m));
    const auto inputs = run::random_inputs(*reference, symbols, 7);
    ASSERT_TRUE(inputs) << to_string(inputs.error());
    const Reference expected = {
        *ir::interpret(*reference, *inputs),
        *ir::interpret(*reference, *inputs,
                       {.precision = ir::Precision::Eager, .accumulators = {}})};
    for (const ir::Mode mode : {ir::Mode::Eager, ir::Mode::Fp32}) {
      const auto joined = joining(*graph, symbols, mode);
      ASSERT_TRUE(joined) << to_string(joined.error());
      const auto decisions = decisions_of(*graph, symbols, mode, *joined);
      ASSERT_TRUE(decisions) << to_string(decisions.error());
      EXPECT_EQ(is_fused(*decisions), GetParam().fuses);
      const auto fused =
          run_graph(*graph, *inputs, device_target(mode), run::Tuning::Known, *joined);
      ASSERT_TRUE(fused) << to_string(fused.error());
      const auto unfused = run_graph(*graph, *inputs, device_target(mode), run::Tuning::Unfused);
      ASSERT_TRUE(unfused) << to_string(unfused.error());
      const auto apart = run_graph(*graph, *inputs, device_target(mode, false));
      ASSERT_TRUE(apart) << to_string(apart.error());
      if (mode == ir::Mode::Eager) {
        EXPECT_EQ(compare_bits(*fused, *unfused), "");
        EXPECT_EQ(compare_bits(*fused, *apart), "");
      }
      // The kernel rounds its result in both modes, and its order of summation differs.
      EXPECT_EQ(compare_with_reference(expected, *fused, 0x1p-7), "") << name(mode);
      EXPECT_EQ(compare_with_reference(expected, *unfused, 0x1p-7), "") << name(mode);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ByName, KernelGraphs, ::testing::ValuesIn(kGraphs),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(KernelGraphs, AnEmptyResultIsNoLaunch) {
  const auto graph = ir::parse_graph(text_of(kGraphs[0], kGraphs[0].kernel));
  const auto inputs = run::random_inputs(*graph, {{"M", 0}}, 1);
  const auto outputs = run_graph(*graph, *inputs, device_target());
  ASSERT_TRUE(outputs) << to_string(outputs.error());
  EXPECT_EQ((*outputs)[0].size(), 0);
}

}  // namespace
}  // namespace attacca::testing
