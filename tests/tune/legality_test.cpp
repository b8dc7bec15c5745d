// What is ranked is never refused: random problems against every built template, on the stand-in
// for the driver (ATTACCA_LIBCUDA), with addresses exactly as aligned as the problems say.
#include "launch/legality.hpp"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "launch/fused.hpp"
#include "mentions.hpp"
#include "problem_testing.hpp"
#include "random_problems.hpp"
#include "tune/candidates.hpp"

namespace attacca::tune {
namespace {

using testing::make;
using testing::Source;

// What the driver asks of cuTensorMapEncodeTiled's arguments; others are refused as it does.
int encode_tiled(void*, int, uint32_t rank, void* address, const uint64_t* extents,
                 const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int, int, int,
                 int) {
  constexpr int kInvalidValue = 1;
  if (rank < 1 || rank > 5 || reinterpret_cast<uintptr_t>(address) % 16 != 0) return kInvalidValue;
  for (uint32_t i = 0; i < rank; ++i) {
    if (extents[i] < 1 || extents[i] > uint64_t{1} << 32) return kInvalidValue;
    if (box[i] < 1 || box[i] > 256 || steps[i] < 1 || steps[i] > 8) return kInvalidValue;
    if (i + 1 < rank && (strides[i] % 16 != 0 || strides[i] >= uint64_t{1} << 40))
      return kInvalidValue;
  }
  return 0;
}

const std::shared_ptr<launch::Toolbox>& toolbox() {
  static const std::shared_ptr<launch::Toolbox> opened = [] {
    auto made = launch::Toolbox::open();
    EXPECT_TRUE(made) << (made ? "" : to_string(made.error()));
    return made ? *made : nullptr;
  }();
  return opened;
}

// A kernel of nothing: what is launched is not run.
std::shared_ptr<const launch::Kernel> empty_kernel(const templates::Template& form) {
  return std::make_shared<const launch::Kernel>(
      *launch::load_kernel(toolbox()->device(), std::string_view("cubin"), form.kernel, &form));
}

TEST(Legality, WhatIsRankedIsLaunchedAndWhatIsNotHasAReason) {
  ASSERT_NE(toolbox(), nullptr);
  const auto catalog = templates::Catalog::open(reinterpret_cast<void*>(&encode_tiled));
  ASSERT_TRUE(catalog) << to_string(catalog.error());
  const gpu::DeviceInfo& device = toolbox()->device().info();
  std::map<std::string, std::shared_ptr<const launch::Kernel>> kernels;
  std::set<std::string> never;
  for (const templates::Template& form : catalog->templates()) {
    if (form.family != templates::Family::Gemm) continue;
    kernels.emplace(form.name, empty_kernel(form));
    never.insert(form.name);
  }
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    Source source(seed);
    const auto [parameters, body] = source.problem();
    const int alignment = source.pick<int>({16, 16, 16, 8, 4, 2});
    const auto made = make(parameters, body, {.symbols = {}, .alignment = alignment});
    SCOPED_TRACE(fmt::format("seed {}: {}\n{}\nalignment {}", seed, parameters, body, alignment));
    ASSERT_TRUE(made.problem) << to_string(made.problem.error());
    problem::Problem problem = *made.problem;
    problem.outer.clear();
    if (problem.products.empty() || problem.empty()) continue;
    const launch::Candidates all = fused_candidates(problem, *catalog, device, {"*"});
    EXPECT_EQ(all.ranked.size() + all.excluded.size(), kernels.size());
    for (const launch::Exclusion& each : all.excluded) EXPECT_NE(each.reason, "") << each.kernel;
    uint64_t memory_at = 0;
    const problem::Addresses at = map(
        [&](const problem::View&) {
          memory_at += uint64_t{1} << 36;
          return reinterpret_cast<void*>(memory_at + uint64_t(alignment) *
                                                         (1 + 2 * uint64_t(source.number(50))));
        },
        problem.views);
    for (const launch::Candidate& ranked : all.ranked)
      for (const launch::Candidate& candidate :
           variants(ranked, *catalog->find(ranked.kernel), problem, device)) {
        // What other kernels wrote before lies in the workspace.
        problem::Problem launched_problem = problem;
        problem::Addresses launched_at = at;
        void* const workspace_at = reinterpret_cast<void*>(uint64_t{1} << 44);
        if (launch::gathers_before(problem, candidate, *catalog)) {
          launched_problem = with_gathered_rows(launched_problem);
          for (auto& product : launched_at.products)
            if (std::exchange(product.rows, {})) product.a = workspace_at;
        }
        if (launch::widens_before(problem, candidate, *catalog)) {
          launched_problem = with_widened_weights(launched_problem);
          for (auto& product : launched_at.products)
            if (std::exchange(product.code_scales, {})) {
              product.code_zeros.reset();
              product.b = workspace_at;
            }
        }
        const auto runnable = launch::make_fused(toolbox(), launched_problem, candidate,
                                                 kernels.at(candidate.kernel));
        std::vector<char> memory(runnable->workspace_bytes() + 256);
        void* workspace = memory.data();
        size_t space = memory.size();
        std::align(256, runnable->workspace_bytes(), workspace, space);
        const Status launched = runnable->launch(launched_at, workspace, nullptr);
        EXPECT_TRUE(launched) << to_string(candidate) << ": " << to_string(launched.error());
        never.erase(candidate.kernel);
      }
  }
  EXPECT_EQ(fmt::format("{}", fmt::join(never, " ")), "") << "templates that no problem fits";
}

TEST(Resolve, AStoredCandidateIsBoundAgainOrSaysWhyNot) {
  const auto made = make("a: bf16[64, 64], b: bf16[128, 64]", "return a @ transpose(b)");
  ASSERT_TRUE(made.problem);
  const launch::Toolbox& tools = *toolbox();
  const auto resolved = [&](const std::string& text) {
    return launch::resolve(*launch::parse_candidate(text), *made.problem, tools.catalog(),
                           tools.device().info());
  };
  const auto bound = resolved("mma_tn_128x128x32_f2_d16 swizzle=2");
  ASSERT_TRUE(bound) << to_string(bound.error());
  EXPECT_EQ(serialize(*bound->binding), "acc0 -> result0");
  EXPECT_EQ(to_string(*bound), "mma_tn_128x128x32_f2_d16 swizzle=2");
  EXPECT_EQ(resolved("unfused algorithm=2")->binding, nullptr);
  EXPECT_TRUE(mentions(resolved("mma_tt_64x64x64_f2_d16").error().what,
                       "mma_tt_64x64x64_f2_d16; B; contiguous along n; 64"));
  EXPECT_TRUE(mentions(resolved("gone").error().what, "no template; gone"));
  for (const char* parameters : {"a: bf16[64, 64], b: bf16[1073741824, 64]",
                                 "a: bf16[64, 1073741824], b: bf16[128, 1073741824]"}) {
    const auto large = make(parameters, "return a @ transpose(b)");
    ASSERT_TRUE(large.problem);
    const auto refused = launch::resolve(*launch::parse_candidate("mma_tn_128x128x32_f2_d16"),
                                         *large.problem, tools.catalog(), tools.device().info());
    ASSERT_FALSE(refused) << parameters;
    EXPECT_TRUE(mentions(refused.error().what, "an extent is too large"));
  }
}

// A kernel of a gate describes both products' weights by the first one's.
TEST(Legality, WeightsOfAGateAreAlike) {
  // Others widen codes first, and may take both.
  const auto refused = [](const std::string& parameters, const std::string& body,
                          bool of_codes = false) {
    const auto made = make(parameters, body);
    EXPECT_TRUE(made.problem) << parameters;
    int gates = 0;
    for (const templates::Template& form : toolbox()->catalog().templates()) {
      if (form.family != templates::Family::Gemm || form.hole.accumulators != 2 ||
          (form.code_bits != 0) != of_codes)
        continue;
      const launch::Legality legal =
          launch::legality(*made.problem, form, toolbox()->device().info(), {});
      EXPECT_FALSE(std::holds_alternative<std::shared_ptr<const epilogue::Binding>>(legal))
          << form.name << ": " << parameters;
      ++gates;
    }
    return gates > 0;
  };
  const std::string dense = "a = x @ transpose(w); b = x @ transpose(v); return silu(a) * b";
  const std::string floats =
      "a = matmul(x, transpose(w), out=f32); b = matmul(x, transpose(v)); "
      "return cast(silu(a) * b, bf16)";
  EXPECT_TRUE(refused("x: bf16[64, 256], w: bf16[128, 256], v: f32[128, 256]", floats));
  EXPECT_TRUE(refused("x: f8e4m3[64, 256], w: f8e4m3[128, 256], v: f8e5m2[128, 256]", dense));
  const std::string grouped =
      "xs = gather(x, i); a = grouped_matmul(xs, transpose(decode(c, s, "
      "bits=8, zero=128)), o); b = grouped_matmul(xs, transpose({}), o); "
      "return silu(a) * b";
  const std::string coded =
      "x: bf16[32, 256], i: s64[64], c: u8[4, 128, 256], s: bf16[4, 128, 2], "
      "c2: {}[4, 128, 256], s2: bf16[4, 128, {}], o: s32[4]";
  EXPECT_TRUE(refused(fmt::format(fmt::runtime(coded), "u8", 2),
                      fmt::format(fmt::runtime(grouped), "decode(c2, s2, bits=8, zero=120)"),
                      true));
  EXPECT_TRUE(refused(fmt::format(fmt::runtime(coded), "s8", 4),
                      fmt::format(fmt::runtime(grouped), "decode(c2, s2, bits=8)"), true));
  EXPECT_TRUE(
      refused("x: bf16[64, 256], w: bf16[4, 128, 256], c: u8[4, 128, 128], "
              "s: u8[4, 128, 8], o: s32[4]",
              "a = grouped_matmul(x, transpose(w), o); "
              "b = grouped_matmul(x, transpose(mxfp4(c, s)), o); return silu(b) * a",
              true));
}

}  // namespace
}  // namespace attacca::tune
