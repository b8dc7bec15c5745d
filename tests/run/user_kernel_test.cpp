// Graphs with users' kernels on the stand-in for the driver (ATTACCA_LIBCUDA): what is launched
// with which parameters, when a kernel is analysed, and what happens to tails that it refuses.
#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "gpu/fake_cuda.hpp"
#include "ir/text/text.hpp"
#include "mentions.hpp"
#include "run/cpu/plan.hpp"
#include "run/cuda/plan.hpp"
#include "unfolded.hpp"

namespace attacca::run {
namespace {

#define FAKE(name) fake<decltype(name)>(#name)

// x: f32[M, 8] through a kernel of user_kernels.cu as k, and what follows.
std::string graph_text(const std::string& entry, const std::string& rest,
                       const std::string& more = "") {
  return fmt::format(
      "graph g(x: f32[M, 8], bias: f32[8], res: f32[M, 8], odd: f32[M, 8; 9, 1]) {{\n"
      "k = kernel(\"{}/tests/run/user_kernels.cu\", x, f32[M, 8], s32(M), s32(8), f32(0.5), "
      "entry={}, grid=[ceildiv(8*M, 256)], block=[256]{})\n{}\n}}\n",
      ATTACCA_SOURCE_DIR, entry, more, rest);
}

ir::Graph parsed(const std::string& text) {
  auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error())) << text;
  return graph ? *std::move(graph) : ir::Graph();
}

// The lines of the driver's calls that launch or fill.
std::string launches() {
  std::string_view calls = FAKE(fake_cuda_calls)();
  std::string text;
  while (!calls.empty()) {
    const std::string_view line = calls.substr(0, calls.find('\n') + 1);
    if (line.starts_with("cuLaunch") || line.starts_with("cuMemset")) text += line;
    calls.remove_prefix(line.size());
  }
  return text;
}

Result<CudaPlan> plan_of(const ir::Graph& graph, CudaOptions options = {},
                         ir::Mode mode = ir::Mode::Fp32) {
  return CudaPlan::make(unfolded(graph, Target::of({.cuda = true}, mode).value()),
                        std::move(options));
}

// Every input and output at an address of its own: 0x1000, 0x2000, ..., the workspace at 0x100000.
// `output`: where the one output is instead, for calls that the stand-in carries out.
Result<std::string> launched(const std::string& text, const std::string& watch,
                             CudaOptions options = {}, int64_t m = 100, void* output = nullptr) {
  ATTACCA_TRY(const CudaPlan plan, plan_of(parsed(text), std::move(options)));
  ATTACCA_TRY(const auto instance, plan.instance({{"M", m}}));
  std::vector<void*> inputs, outputs;
  const auto next = [&] {
    return reinterpret_cast<void*>(0x1000 * (inputs.size() + outputs.size() + 1));
  };
  const ir::Graph& graph = plan.partition().graph;
  for (size_t i = 0; i < graph.inputs().size(); ++i) inputs.push_back(next());
  for (size_t i = 0; i < graph.outputs().size(); ++i) outputs.push_back(output ? output : next());
  FAKE(fake_cuda_reset)();
  FAKE(fake_cuda_watch)(watch.c_str());
  ATTACCA_TRY_VOID(instance->launch(inputs, outputs, reinterpret_cast<void*>(0x100000), nullptr));
  return launches();
}

std::string text_of(const Result<std::string>& result) {
  return result ? *result : to_string(result.error());
}

TEST(UserKernel, D3TheFusedLaunchIsPassedTheTailsOperandsBehindItsOwn) {
  // x, then where y goes in place of k, then its numbers, then res and bias as the tail reads them.
  const std::string text = graph_text("scale", "return y = silu(res * k + bias)");
  EXPECT_EQ(
      text_of(launched(text, "8 8 4 4 4 8 8")),
      "cuLaunchKernel 4,1,1 256,1,1 0 4096 0x1000 0x5000 0x64 0x8 0x3f000000 0x3000 0x2000\n");
}

TEST(UserKernel, TheOffsetOfAnOperandIsAddedToItsAddress) {
  const std::string text = graph_text("scale", "return y = k + (odd[:, 0:1])[1:2, :]");
  EXPECT_EQ(text_of(launched(text, "8 8 4 4 4 8")),
            "cuLaunchKernel 4,1,1 256,1,1 0 4096 0x1000 0x5000 0x64 0x8 0x3f000000 0x4024\n");
}

TEST(UserKernel, WithoutATailItStoresItsOwn) {
  EXPECT_EQ(text_of(launched(graph_text("scale", "return k"), "8 8 4 4 4")),
            "cuLaunchKernel 4,1,1 256,1,1 0 4096 0x1000 0x5000 0x64 0x8 0x3f000000\n");
}

TEST(UserKernel, UnfusedItStoresToTheWorkspaceAndTheTailFollows) {
  const std::string text = graph_text("scale", "return y = silu(k + bias)");
  const std::string unfused = text_of(launched(text, "8 8 4 4 4", {.tuning = Tuning::Unfused}));
  EXPECT_TRUE(unfused.starts_with(
      "cuLaunchKernel 4,1,1 256,1,1 0 4096 0x1000 0x100000 0x64 0x8 0x3f000000\ncuLaunchKernel"))
      << unfused;
}

TEST(UserKernel, ZeroedOutputsAreFilledFirst) {
  const std::string text = graph_text("accumulate", "return k", ", zeroed=true");
  alignas(256) static float output[100 * 8] = {1, 2, 3};
  EXPECT_EQ(text_of(launched(text, "", {}, 100, output)),
            "cuMemsetD8Async 3200\ncuLaunchKernel 4,1,1 256,1,1 0 4096\n");
  EXPECT_EQ(output[2], 0);
  EXPECT_EQ(text_of(launched(text, "", {}, 0)), "");
}

TEST(UserKernel, NothingIsLaunchedForAnEmptyResult) {
  EXPECT_EQ(text_of(launched(graph_text("scale", "return y = relu(k)"), "8 8", {}, 0)), "");
  EXPECT_EQ(text_of(launched(graph_text("scale", "return k"), "8 8", {}, 0)), "");
}

// ---- How it was decided

struct Decided {
  std::string decision;  // "CANDIDATE (SOURCE)"
  std::string reasons;   // a line each
  int analyses = 0;
};
Result<Decided> decide(const std::string& text, const CudaOptions& options = {},
                       ir::Mode mode = ir::Mode::Fp32) {
  Decided decided;
  ATTACCA_TRY(const CudaPlan plan, plan_of(parsed(text), options, mode));
  ATTACCA_TRY(const auto instance, plan.instance({{"M", 100}}));
  for (const Decision& each : instance->decisions()) {
    if (!each.region->kernel) continue;
    decided.decision += fmt::format("{} ({})", to_string(each.candidate), to_string(each.source));
    for (const launch::Exclusion& excluded : each.excluded)
      decided.reasons += excluded.reason + "\n";
  }
  decided.analyses = plan.toolbox()->user_kernels().analyses();
  return decided;
}

// `mentioned`: by the one reason; "": there is none.
void expect_decided(const Result<Decided>& got, const std::string& decision, int analyses,
                    const std::string& mentioned = "") {
  ASSERT_TRUE(got) << to_string(got.error());
  EXPECT_EQ(got->decision, decision);
  EXPECT_EQ(std::count(got->reasons.begin(), got->reasons.end(), '\n'), mentioned.empty() ? 0 : 1);
  EXPECT_TRUE(mentions(got->reasons, mentioned));
  EXPECT_EQ(got->analyses, analyses);
}

TEST(UserKernel, D5TheAnalysisRunsOnlyWhereATailIs) {
  expect_decided(decide(graph_text("scale", "return k")), "", 0);
  expect_decided(decide(graph_text("accumulate", "return k, y = relu(k)")), "", 0);
  expect_decided(decide(graph_text("scale", "return y = relu(k)")), "user_kernel (analysis)", 1);
  expect_decided(decide(graph_text("scale", "return y = relu(k)"), {.tuning = Tuning::Unfused}),
                 "unfused (only way)", 0);
}

TEST(UserKernel, ATailThatMayBeSlowerJoinsOnlyByMeasurement) {
  expect_decided(decide(graph_text("scale_pairs", "return y = relu(k)")), "user_kernel (analysis)",
                 1);
  expect_decided(decide(graph_text("scale_pairs", "return y = silu(k)")), "unfused (analysis)", 1,
                 "stores at 2 places; silu; slow; tune");
  expect_decided(decide(graph_text("scale", "return y = silu(k)")), "user_kernel (analysis)", 1);
  expect_decided(decide(graph_text("scale", "return y = silu(k)"), {}, ir::Mode::Eager),
                 "unfused (analysis)", 1, "silu; eager; tune");
}

TEST(UserKernel, ARefusedTailRunsUnfusedAndSaysWhy) {
  expect_decided(decide(graph_text("accumulate", "return y = relu(k)")), "unfused (analysis)", 1,
                 "ld.global.f32; [read]; user_kernels.cu:13");
}

TEST(UserKernel, D1AKernelThatWritesToItsOperandsTakesNoTail) {
  expect_decided(decide(graph_text("consume", "return y = k + x")), "unfused (analysis)", 1,
                 "writes to its operand; parameter 0");
}

TEST(UserKernel, AnOperandOfAnotherLayoutRefusesBeforeTheAnalysis) {
  expect_decided(decide(graph_text("scale", "return y = k + odd")), "unfused (analysis)", 0,
                 "f32; strides 9, 1; output");
}

TEST(UserKernel, AFilterLeavesItsTailOut) {
  const std::string text = graph_text("scale", "return y = relu(k)");
  const auto with = [](const tune::TemplateFilter& filter) {
    CudaOptions options;
    options.tune_options.filter = filter;
    return options;
  };
  expect_decided(decide(text, with({.allow = {}, .deny = {"user_*"}})), "unfused (analysis)", 1,
                 "denied; user_*");
  expect_decided(decide(text, with({.allow = {"mma_*"}, .deny = {}})), "unfused (analysis)", 1,
                 "not allowed; mma_*");
  expect_decided(decide(text, with({.allow = {"user_kernel"}, .deny = {"mma_*"}})),
                 "user_kernel (analysis)", 1);
}

// A filtered candidate is neither timed nor selected, also when measuring.
TEST(UserKernel, AFilterHoldsForMeasurements) {
  CudaOptions options{.tuning = Tuning::Always};
  options.tune_options.filter.deny = {"user_kernel"};
  const auto plan = plan_of(parsed(graph_text("scale", "return y = tanh(k + bias)")), options);
  ASSERT_TRUE(plan) << to_string(plan.error());
  const auto instance = plan->instance({{"M", 100}});
  ASSERT_TRUE(instance) << to_string(instance.error());
  const Decision& decision = (*instance)->decisions()[0];
  EXPECT_EQ(to_string(decision.candidate), "unfused");
  EXPECT_TRUE(decision.trials.empty());
  ASSERT_EQ(decision.excluded.size(), 1u);
  EXPECT_TRUE(mentions(decision.excluded[0].reason, "denied; user_kernel"));
}

// After the plan and everything that it made is destroyed.
TEST(UserKernel, ADecisionKeepsItsRegion) {
  std::vector<Decision> decisions;
  std::weak_ptr<const fuse::Region> region;
  {
    const auto plan = plan_of(parsed(graph_text("scale", "return y = silu(k + bias)")));
    ASSERT_TRUE(plan) << to_string(plan.error());
    const auto instance = plan->instance({{"M", 100}});
    ASSERT_TRUE(instance) << to_string(instance.error());
    decisions = (*instance)->decisions();
    region = decisions.at(0).region;
    EXPECT_EQ(decisions[0].region.get(), &plan->partition().regions[0]);
  }
  ASSERT_FALSE(region.expired());
  EXPECT_TRUE(decisions[0].region->kernel);
  EXPECT_EQ(decisions[0].region->nodes.size(), 3u);
  decisions.clear();
  EXPECT_TRUE(region.expired()) << "and nothing else does";
}

// On the stand-in every launch takes 1.5 ms: one less is faster.
TEST(UserKernel, FusedAndUnfusedAreMeasuredInTurns) {
  const ir::Graph graph = parsed(graph_text("scale", "return y = silu(k + bias)"));
  const auto plan = plan_of(graph, {.tuning = Tuning::Always});
  ASSERT_TRUE(plan) << to_string(plan.error());
  const auto instance = plan->instance({{"M", 100}});
  ASSERT_TRUE(instance) << to_string(instance.error());
  ASSERT_EQ((*instance)->decisions().size(), 1u);
  const Decision& decision = (*instance)->decisions()[0];
  EXPECT_EQ(decision.source, Source::Measured);
  EXPECT_EQ(to_string(decision.candidate), "user_kernel");
  EXPECT_NEAR(decision.seconds, 1.5e-3, 1e-6);
  EXPECT_NEAR(decision.unfused_seconds, 3e-3, 1e-6);
  EXPECT_EQ(decision.trials.size(), 2u);
}

// A choice that was measured to be slower is not selected here.
TEST(UserKernel, AKnownChoiceIsTaken) {
  const ir::Graph graph = parsed(graph_text("scale", "return y = silu(k + bias)"));
  const auto first = plan_of(graph);
  ASSERT_TRUE(first) << to_string(first.error());
  const auto instance = first->instance({{"M", 100}});
  ASSERT_TRUE(instance) << to_string(instance.error());
  const KnownChoice known{(*instance)->decisions()[0].key, {.candidate = {}, .seconds = 1e-6}};
  const auto second = plan_of(graph, {.choices = {known}});
  const auto other = second->instance({{"M", 99}});  // of the same bucket
  ASSERT_TRUE(other) << to_string(other.error());
  EXPECT_EQ(to_string((*other)->decisions()[0].candidate), "unfused");
  EXPECT_EQ((*other)->decisions()[0].source, Source::Plan);
  EXPECT_EQ(second->toolbox()->user_kernels().analyses(), 1);
}

// The kernel's result needs memory where it is not fused alone.
TEST(UserKernel, D3TheIntermediateBufferDisappears) {
  const ir::Graph graph = parsed(graph_text("scale", "return y = silu(k + bias)"));
  const auto bytes = [&](bool unfused) {
    const auto plan = plan_of(graph, {.tuning = unfused ? Tuning::Unfused : Tuning::Known});
    return (*plan->instance({{"M", 100}}))->workspace_bytes();
  };
  EXPECT_EQ(bytes(false), 0u);
  EXPECT_GE(bytes(true), 100u * 8 * 4);
}

// ---- Bad input

struct BadCall {
  const char* name;
  const char *from, *to;  // in the text of a good call
  const char* what;       // its end
  const char* fix;
};

class BadCalls : public testing::TestWithParam<BadCall> {};

TEST_P(BadCalls, SayWhatWhereAndTheMend) {
  const BadCall& bad = GetParam();
  std::string text = graph_text("scale", "return k");
  text.replace(text.find(bad.from), std::string_view(bad.from).size(), bad.to);
  const auto result = launched(text, "");
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().what.ends_with(bad.what)) << result.error().what;
  EXPECT_EQ(result.error().where, "k");
  EXPECT_EQ(result.error().fix, bad.fix);
}

constexpr const char* kPassWhatItTakes =
    "pass what the kernel takes, in its order; numbers say their dtype";
const BadCall kBadCalls[] = {
    {"too_few", ", f32(0.5)", "", "scale takes 5 parameters, and 4 are passed", kPassWhatItTakes},
    {"too_wide", "s32(M)", "s64(M)", "scale has 4 bytes, and s64(100) of 8 is passed",
     kPassWhatItTakes},
    {"an_address_for_a_number", "s32(M)", "res", "scale has 4 bytes, and an address of 8 is passed",
     kPassWhatItTakes},
    {"no_blocks", "[ceildiv(8*M, 256)]", "[1, M - 100]", "axis 1 of the grid is 0",
     "a grid has 1 to 65535 blocks there"},
    {"too_many_blocks", "[ceildiv(8*M, 256)]", "[1, 1000*M]", "axis 1 of the grid is 100000",
     "a grid has 1 to 65535 blocks there"},
    {"too_large_a_number", "s32(M)", "s32(1000000000*M)", "100000000000 is no value of s32",
     "pass it as s64, or make the sizes smaller"},
};
INSTANTIATE_TEST_SUITE_P(Cases, BadCalls, testing::ValuesIn(kBadCalls),
                         [](const auto& info) { return info.param.name; });

TEST(UserKernel, AFileThatIsNotThereIsAnError) {
  std::string text = graph_text("scale", "return k");
  text.replace(text.find("user_kernels.cu"), 12, "nowhere");
  const auto result = launched(text, "");
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().what.ends_with("nowhere.cu")) << to_string(result.error());
}

TEST(UserKernel, ACpuHasNoKernels) {
  const auto plan = CpuPlan::make(unfolded(parsed(graph_text("scale", "return y = relu(k)"))));
  ASSERT_FALSE(plan);
  EXPECT_TRUE(plan.error().what.ends_with("user_kernels.cu runs on a GPU alone"));
  EXPECT_EQ(plan.error().where, "k");
  EXPECT_EQ(plan.error().fix, "run with --device cuda");
}

}  // namespace
}  // namespace attacca::run
