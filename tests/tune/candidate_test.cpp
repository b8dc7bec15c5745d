// Which templates are legal for a problem on an H200 (none is needed), their order, and why others
// are excluded; candidates as text.
#include "launch/candidate.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "launch/arguments.hpp"
#include "launch/legality.hpp"
#include "mentions.hpp"
#include "problem_testing.hpp"
#include "templates/kernels/host/record.hpp"
#include "templates/templates_testing.hpp"
#include "tune/candidates.hpp"
#include "tune/model/cost_model.hpp"

// Of a template for alternate columns, by CMakeLists.txt.
extern "C" const attacca_record attacca_record_alternate;
void* attacca_encode_tiled = nullptr;

namespace attacca::tune {
namespace {

using templates::testing::built;
using testing::make;

TEST(CandidateText, RoundTrip) {
  for (const char* text : {"unfused", "unfused algorithm=3", "unfused absorbed=2 algorithm=1",
                           "some_template", "t swizzle=2 raster=1 splits=4"}) {
    const auto candidate = launch::parse_candidate(text);
    ASSERT_TRUE(candidate) << text;
    EXPECT_EQ(to_string(*candidate), text);
  }
  EXPECT_EQ(to_string(*launch::parse_candidate("  t   splits=0  raster=2 ")), "t raster=2");
}

TEST(CandidateText, Errors) {
  EXPECT_EQ(launch::parse_candidate("").error().what, "an empty candidate");
  for (const char* word : {"swizzle", "swizzle=", "swizzle=x", "swizzle=2x", "swizzle=-1",
                           "swizzle=99999999999", "warp=3", "=3", "="}) {
    const auto candidate = launch::parse_candidate(std::string("t ") + word);
    ASSERT_FALSE(candidate) << word;
    EXPECT_EQ(candidate.error().what, std::string(word) + " says nothing about a candidate");
  }
}

gpu::DeviceInfo h200() {
  return *gpu::known_device("h200");
}

launch::Candidates candidates(const problem::Problem& problem,
                              const gpu::DeviceInfo& device = h200()) {
  return tune::fused_candidates(problem, built(), device);
}

problem::Problem problem(const std::string& parameters, const std::string& body,
                         const testing::MakeOptions& options = {}) {
  auto made = make(parameters, body, options);
  EXPECT_TRUE(made.problem) << to_string(made.problem.error());
  return *std::move(made.problem);
}

// A plain bf16 product of weights given as (N, K).
problem::Problem product(int64_t m, int64_t n, int64_t k) {
  return problem("a: bf16[M, K], b: bf16[N, K], c: bf16[N]", "return relu(a @ transpose(b) + c)",
                 {{{"M", m}, {"N", n}, {"K", k}}});
}

std::map<std::string, std::string> reasons(const launch::Candidates& all) {
  std::map<std::string, std::string> result;
  for (const launch::Exclusion& each : all.excluded) result[each.kernel] = each.reason;
  return result;
}

// nullptr: not ranked.
const launch::Candidate* find(const launch::Candidates& all, const std::string& kernel) {
  for (const launch::Candidate& each : all.ranked)
    if (each.kernel == kernel) return &each;
  return nullptr;
}

bool ranked(const launch::Candidates& all, const std::string& kernel) {
  return find(all, kernel) != nullptr;
}

// Seconds; infinity: not ranked.
double expected(const launch::Candidates& all, const std::string& kernel) {
  for (size_t i = 0; i < all.ranked.size(); ++i)
    if (all.ranked[i].kernel == kernel) return all.expected[i];
  return std::numeric_limits<double>::infinity();
}

// Some templates are ranked, each of any strides.
bool only_any_strides(const launch::Candidates& all) {
  return !all.ranked.empty() && std::all_of(all.ranked.begin(), all.ranked.end(), [](auto& each) {
    return built().find(each.kernel)->any_strides;
  });
}

constexpr const char* kNarrow = "mma_tt_64x64x64_f2_d16";    // B as (K, N)
constexpr const char* kWide = "mma_tn_128x128x32_f2_d16";    // B as (N, K)
constexpr const char* kAnything = "mma_xx_64x64x32_f2_d16";  // any strides

TEST(Candidates, EveryTemplateIsRankedOrExcludedWithAReason) {
  const launch::Candidates all = candidates(product(512, 1024, 512));
  const auto gemms =
      std::count_if(built().templates().begin(), built().templates().end(),
                    [](const auto& each) { return each.family == templates::Family::Gemm; });
  EXPECT_EQ(all.ranked.size() + all.excluded.size(), static_cast<size_t>(gemms));
  for (const launch::Exclusion& each : all.excluded) EXPECT_NE(each.reason, "") << each.kernel;
  EXPECT_TRUE(ranked(all, kWide));
  EXPECT_TRUE(ranked(all, kAnything));
  EXPECT_TRUE(mentions(reasons(all)[kNarrow], "B; contiguous along n; 512"));
}

TEST(Candidates, LayoutsDecide) {
  const launch::Candidates all =
      candidates(problem("a: bf16[64, 64], b: bf16[64, 128]", "return a @ b"));
  EXPECT_TRUE(ranked(all, kNarrow));
  EXPECT_FALSE(ranked(all, kWide));
  // 65 elements a row: no 16-byte steps.
  const launch::Candidates odd =
      candidates(problem("a: bf16[64, 65], b: bf16[128, 65]", "return a @ transpose(b)"));
  EXPECT_TRUE(only_any_strides(odd));
  EXPECT_TRUE(ranked(odd, kAnything));
  EXPECT_TRUE(mentions(reasons(odd)[kWide], "A; along m; multiple of 16 bytes; 130"));
  const launch::Candidates shifted = candidates(
      problem("a: bf16[64, 64], b: bf16[128, 64]", "return a @ transpose(b)", {.alignment = 4}));
  EXPECT_TRUE(only_any_strides(shifted));
  EXPECT_TRUE(ranked(shifted, kAnything));
}

constexpr const char* kBytes = "wgmma_s8_tn_128x128x128_2x1_pingpong_f2_d8";
constexpr const char* kAnyBytes = "mma_s8_xx_64x64x64_f2_d32";
constexpr const char* kPrecise = "wgmma_e4m3_tn_128x128x128_2x1_f2_d8";
constexpr const char* kFast = "wgmma_e4m3_tn_16x64x128_1x1_swap_fast_f2_d8";

TEST(Candidates, OfBytesByAccumulatorsAndResults) {
  const auto requantised = [](const char* a, const char* b) {
    return candidates(problem(fmt::format("a: {}[64, 64], b: {}[128, 64], s: f32[128]", a, b),
                              "return cast(round(cast(a @ transpose(b), f32) * s), s8, "
                              "saturate=true)"));
  };
  const launch::Candidates all = requantised("s8", "s8");
  EXPECT_TRUE(ranked(all, kBytes));
  EXPECT_TRUE(mentions(reasons(all)[kWide], "no s8"));
  EXPECT_TRUE(mentions(reasons(all)[kAnyBytes], "result 0; 32 bits; no output"));
  EXPECT_TRUE(ranked(requantised("u8", "s8"), kBytes));
  EXPECT_TRUE(ranked(requantised("s8", "u8"), kBytes));
  // As (K, N), and rows that are no multiple of 16 bytes: elements one by one.
  for (const char* parameters :
       {"a: s8[64, 64], b: s8[64, 128]", "a: s8[64, 65], b: s8[65, 128]"}) {
    const launch::Candidates raw = candidates(problem(parameters, "return a @ b"));
    EXPECT_TRUE(only_any_strides(raw)) << parameters;
    EXPECT_TRUE(ranked(raw, kAnyBytes)) << parameters;
  }
}

TEST(Candidates, FastSumsOnlyWhereTheProductAllowsThem) {
  const auto all = [](const char* attributes) {
    return candidates(
        problem("a: f8e4m3[64, 64], b: f8e5m2[128, 64], s: f32[64, 1]",
                fmt::format("return cast(matmul(a, transpose(b){}) * s, f8e4m3, saturate=true)",
                            attributes)));
  };
  EXPECT_TRUE(ranked(all(""), kPrecise));
  EXPECT_TRUE(mentions(reasons(all(""))[kFast], "fast=true"));
  EXPECT_TRUE(ranked(all(", fast=true"), kPrecise));
  EXPECT_TRUE(ranked(all(", fast=true"), kFast));
}

TEST(Candidates, ScalesOfBlocksGoToWhoTakesThem) {
  constexpr const char* kScaled = "wgmma_e4m3_tn_128x128x128_2x1_scaled_direct_f0_d16";
  const std::string inputs = "a: f8e4m3[64, 320], s: f32[64, 3], b: f8e5m2[144, 320], t: f32[2, 3]";
  const problem::Problem scaled = problem(inputs,
                                          "return cast(scale_blocks(a, s, [1, 128]) @ "
                                          "transpose(scale_blocks(b, t, [128, 128])), bf16)");
  ASSERT_TRUE(scaled.views.products[0].scales.has_value());
  EXPECT_TRUE(ranked(candidates(scaled), kScaled));
  EXPECT_TRUE(mentions(reasons(candidates(scaled))[kPrecise], "no scales of blocks"));
  const launch::Candidates plain = candidates(
      problem("a: f8e4m3[64, 64], b: f8e5m2[128, 64]", "return cast(a @ transpose(b), bf16)"));
  EXPECT_TRUE(mentions(reasons(plain)[kScaled], "blocks with scales"));
}

TEST(Candidates, DevicesAndDtypesDecide) {
  const problem::Problem plain = product(64, 64, 64);
  gpu::DeviceInfo old = h200();
  old.major = 7;
  EXPECT_EQ(candidates(plain, old).ranked.size(), 0u);
  EXPECT_TRUE(mentions(reasons(candidates(plain, old))[kWide], "compute capability; 80; 70"));
  gpu::DeviceInfo small = h200();
  small.max_shared_bytes = 48 << 10;
  EXPECT_TRUE(mentions(reasons(candidates(plain, small))[kWide], "65536; shared memory; 49152"));
  EXPECT_TRUE(ranked(candidates(plain, small), kAnything));
  const launch::Candidates singles =
      candidates(problem("a: f32[64, 64], b: f32[64, 64]", "return a @ b"));
  EXPECT_TRUE(mentions(reasons(singles)[kWide], "no f32"));
  EXPECT_EQ(singles.ranked.size(), 0u);
  EXPECT_TRUE(
      ranked(candidates(problem("a: f16[64, 64], b: f16[64, 64]", "return a @ b")), kNarrow));
  const auto why_not = [](const std::string& parameters, const std::string& body,
                          const testing::MakeOptions& options = {}) {
    return reasons(candidates(problem(parameters, body, options)))[kNarrow];
  };
  EXPECT_TRUE(mentions(
      why_not("a: bf16[64, 64], b: bf16[64, 128]", "h = a @ b\nreturn silu(h[:, :64]) * h[:, 64:]"),
      "some; columns; all"));
  EXPECT_TRUE(
      mentions(why_not("a: bf16[64, K], b: bf16[K, 64]", "return a @ b", {{{"K", 0}}}), "K; 0"));
}

constexpr const char* kGate = "mma_tn_64x64x32_gate_f2_d16";     // weights as (N, K)
constexpr const char* kAnyGate = "mma_xx_64x32x32_gate_f2_d16";  // any strides

// Every operand at an address of its own: `step`, 2 * `step`, ...
problem::Addresses addresses(const problem::Problem& problem, uintptr_t step) {
  uintptr_t last = 0;
  return map([&](const problem::View&) { return reinterpret_cast<void*>(last += step); },
             problem.views);
}

// Gates of 64 columns, K = 64, in every layout of their weights.
struct GateLayout {
  const char* weights;
  const char* products;  // p and q
  int64_t b, b1;         // the first elements of the two factors in their memory
  int64_t column_stride, k_stride;
  const char* kernel;
};
constexpr GateLayout kGateLayouts[] = {
    {"v: bf16[64, 64], w: bf16[64, 64]", "p = a @ transpose(v); q = a @ transpose(w)", 0, 0, 64, 1,
     kGate},
    {"w: bf16[128, 64]", "h = a @ transpose(w); p = h[:, :64]; q = h[:, 64:]", 0, 64 * 64, 64, 1,
     kGate},
    {"w: bf16[128, 64]", "h = a @ transpose(w); p = h[:, 64:]; q = h[:, :64]", 64 * 64, 0, 64, 1,
     kGate},
    {"w: bf16[128, 64]", "h = a @ transpose(w); p = h[:, ::2]; q = h[:, 1::2]", 0, 64, 128, 1,
     kGate},
    {"w: bf16[64, 128]", "h = a @ w; p = h[:, ::2]; q = h[:, 1::2]", 0, 1, 2, 128, kAnyGate},
};

TEST(Gates, EveryLayoutOfWeightsIsTwoFactorsAsTheyLie) {
  for (const GateLayout& layout : kGateLayouts) {
    const problem::Problem made =
        problem(std::string("a: bf16[96, 64], ") + layout.weights,
                std::string(layout.products) + "\nreturn silu(p + 1.0) * q");
    const launch::Candidates all = candidates(made);
    EXPECT_TRUE(ranked(all, layout.kernel)) << layout.products;
    EXPECT_TRUE(ranked(all, kAnyGate)) << layout.products;
    EXPECT_FALSE(ranked(all, kWide)) << layout.products;
    const auto& kernel = *built().find(layout.kernel);
    const epilogue::Binding& binding = *find(all, layout.kernel)->binding;
    attacca_gemm_arguments g = launch::describe(made, kernel, binding, {}, 132);
    const problem::Addresses at = addresses(made, 0x10000);
    launch::set_addresses(made, made.factors(), binding, at, g);
    const bool two = made.products.size() == 2;
    // The gate is the product that silu reads, whatever its position in the canonical order.
    const size_t first = made.factors()[0].b.offset == layout.b ? 0 : 1;
    const auto address = [&](void* base, int64_t offset) {
      return static_cast<void*>(static_cast<char*>(base) + offset * 2);
    };
    const attacca_operand& gate = first == 0 ? g.b : g.b1;
    const attacca_operand& up = first == 0 ? g.b1 : g.b;
    EXPECT_EQ(g.a.pointer, at.products[0].a);
    if (!two) {
      EXPECT_EQ(gate.pointer, address(at.products[0].b, layout.b)) << layout.products;
      EXPECT_EQ(up.pointer, address(at.products[0].b, layout.b1)) << layout.products;
    } else {
      EXPECT_NE(g.b.pointer, g.b1.pointer);
    }
    for (const attacca_operand* b : {&g.b, &g.b1}) {
      EXPECT_EQ(b->column_stride, layout.column_stride) << layout.products;
      EXPECT_EQ(b->row_stride, layout.k_stride) << layout.products;
    }
  }
}

// Templates of alternate columns are not among the few: one like a built one, with the builder of
// such a template.
TEST(Gates, AlternateColumnsOfOneMatrixHaveTemplatesOfTheirOwn) {
  templates::Template kernel = *built().find(kGate);
  kernel.b_k_major = false;
  kernel.alternate_columns = true;
  kernel.builder = &attacca_record_alternate.entry;
  const auto refusal = [&](const std::string& weights, const std::string& products,
                           int alignment = 16) {
    const launch::Legality legal =
        launch::legality(problem("a: bf16[96, 64], " + weights,
                                 products + "\nreturn silu(p + 1.0) * q", {.alignment = alignment}),
                         kernel, h200());
    const auto* reason = std::get_if<std::string>(&legal);
    return reason ? *reason : std::string();
  };
  EXPECT_EQ(refusal("w: bf16[64, 128]", "h = a @ w; p = h[:, ::2]; q = h[:, 1::2]"), "");
  EXPECT_EQ(refusal("w: bf16[64, 128]", "h = a @ w; q = h[:, ::2]; p = h[:, 1::2]"), "");
  const char* const apart = "B; B1; alternate columns of one matrix";
  EXPECT_TRUE(
      mentions(refusal("w: bf16[64, 128]", "h = a @ w; p = h[:, :64]; q = h[:, 64:]"), apart));
  EXPECT_TRUE(mentions(refusal("w: bf16[64, 124]", "h = a @ w; p = h[:, ::2]; q = h[:, 1::2]"),
                       "B; along k; multiple of 16 bytes; 248"));
  EXPECT_NE(refusal("w: bf16[64, 128]", "h = a @ w; p = h[:, ::2]; q = h[:, 1::2]", 8), "");
  EXPECT_TRUE(mentions(refusal("v: bf16[64, 64], w: bf16[64, 64]", "p = a @ v; q = a @ w"), apart));
}

TEST(Gates, SayWhyNot) {
  EXPECT_TRUE(mentions(reasons(candidates(product(64, 64, 64)))[kGate], "reads 1; hands over 2"));
  const auto of = [&](const std::string& parameters, const std::string& body) {
    return reasons(candidates(problem(parameters, body)));
  };
  EXPECT_TRUE(mentions(of("a: bf16[64, 64], v: bf16[64, 64], w: bf16[64, 64]",
                          "return silu(a @ transpose(v)) * (a @ transpose(w))")[kWide],
                       "reads 2; hands over 1"));
  EXPECT_TRUE(mentions(of("a: bf16[64, 64], w: bf16[64, 128]",
                          "h = a @ w; return silu(h[:, ::2]) * h[:, 1::2]")[kGate],
                       "B; contiguous along k; 128"));
}

TEST(Candidates, OddOperandsGoThroughTheContext) {
  const auto* kernel = built().find(kWide);
  const auto bound = [&](const std::string& parameters, const std::string& tail) {
    const problem::Problem made = problem("a: bf16[64, 64], b: bf16[128, 64], " + parameters,
                                          "return a @ transpose(b) + " + tail);
    const launch::Legality legal = launch::legality(made, *kernel, h200());
    if (const auto* reason = std::get_if<std::string>(&legal)) return *reason;
    const epilogue::Binding& binding = *std::get<0>(legal);
    return fmt::format("{}: {}", serialize(binding), launch::context_operands(made, binding));
  };
  EXPECT_EQ(bound("r: bf16[64, 128]", "r"), "acc0 full0 -> result0: 0");
  EXPECT_EQ(bound("r: bf16[64, 128; 1, 64]", "r"), "acc0 context0 -> result0: 1");
  EXPECT_EQ(bound("c: bf16[128]", "c"), "acc0 row0 -> result0: 0");
}

// Kernels that round each weight to A's dtype serve graphs that unpack to it, in both modes.
TEST(Candidates, PackedWeightsAreRoundedAsTheGraphDoes) {
  constexpr const char* kMixed = "packed_wgmma_i4_bf16_128x128_1x2_pingpong_f2_d16";
  const auto packed = [](ir::Mode mode, const std::string& dtype) {
    return candidates(
        problem("a: bf16[256, 128], w: u8[4608]",
                fmt::format("y = a @ transpose(unpack(w, [64, 128], weights=s8, bits=4, group=64, "
                            "scales=bf16, dtype={}))\n  return y",
                            dtype),
                {.symbols = {}, .mode = mode}));
  };
  ASSERT_NE(built().find(kMixed), nullptr);
  EXPECT_TRUE(ranked(packed(ir::Mode::Fp32, "bf16"), kMixed));
  EXPECT_TRUE(ranked(packed(ir::Mode::Eager, "bf16"), kMixed));
  EXPECT_TRUE(
      mentions(reasons(packed(ir::Mode::Fp32, "f32"))[kMixed], "rounds the weights; bf16; f32"));
  EXPECT_TRUE(
      mentions(reasons(candidates(product(512, 1024, 512)))[kMixed], "packed weights alone"));
}

// Weights of bytes are widened where they lie, in both modes; the library reads a copy of them.
TEST(Candidates, BytesAreWidenedWhereTheyLie) {
  constexpr const char* kColumns = "wide_bf16_tn_16x64_1x1x2_f2_d16";
  constexpr const char* kRows = "wide_bf16_tt_64x64_1x1x2_f2_d16";
  const auto of = [](const std::string& parameters, const std::string& b, ir::Mode mode) {
    return problem("a: bf16[16, 4096], " + parameters,
                   fmt::format("y = a @ {}\n  return silu(y)", b), {.symbols = {}, .mode = mode});
  };
  for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager})
    for (const char* bytes : {"s8", "u8"}) {
      const problem::Problem columns =
          of(fmt::format("w: {}[11008, 4096]", bytes), "transpose(cast(w, bf16))", mode);
      const launch::Candidates all = candidates(columns);
      EXPECT_TRUE(ranked(all, kColumns)) << bytes;
      EXPECT_TRUE(mentions(reasons(all)[kRows], "contiguous along n"));
      EXPECT_TRUE(mentions(reasons(all)["mma_tn_128x128x32_f2_d16"], "does not widen"))
          << reasons(all)["mma_tn_128x128x32_f2_d16"];
      EXPECT_LT(expected(all, kColumns), estimated_unfused(columns, h200()).front().seconds);
      EXPECT_TRUE(ranked(
          candidates(of(fmt::format("w: {}[4096, 11008]", bytes), "cast(w, bf16)", mode)), kRows));
    }
  EXPECT_TRUE(
      mentions(reasons(candidates(of("w: s8[11000, 4096; 4100, 1]", "transpose(cast(w, bf16))",
                                     ir::Mode::Fp32)))[kColumns],
               "multiple of 16 bytes; 4100"));
  EXPECT_TRUE(mentions(reasons(candidates(product(512, 1024, 512)))[kColumns], "that it widens"));
}

// The kernels that multiply groups of rows take nothing else, and others no groups. Few rows of
// each group prefer small tiles.
TEST(Candidates, GroupsOfRows) {
  constexpr const char* kFew = "grouped_tn_16x64_1x1_swap_f1_d16";
  constexpr const char* kMany = "grouped_tn_128x128_1x1_pingpong_direct_f1_d16";
  constexpr const char* kGate = "grouped_tt_16x64_1x1_swap_gate_f2_d16";
  const auto of = [](int64_t rows, int groups, const std::string& weights, const std::string& body,
                     ir::Mode mode = ir::Mode::Fp32) {
    return problem(
        fmt::format("x: bf16[{0}, 2048], w: bf16[{1}, {2}], o: s32[{1}], t: bf16[{0}, 1]", rows,
                    groups, weights),
        body, {.symbols = {}, .mode = mode});
  };
  constexpr const char* kPlain = "y = grouped_matmul(x, transpose(w), o)\n  return silu(y) * t";
  constexpr const char* kHalves =
      "h = grouped_matmul(x, w, o)\n  return silu(h[:, :768]) * h[:, 768:]";
  for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager}) {
    const problem::Problem few = of(128, 128, "1536, 2048", kPlain, mode);
    const launch::Candidates all = candidates(few);
    EXPECT_TRUE(ranked(all, kMany));
    EXPECT_EQ(all.ranked.front().kernel, kFew);
    EXPECT_EQ(all.ranked.size(), 2U);
    EXPECT_TRUE(mentions(reasons(all)[kGate], "the kernel hands over 2")) << reasons(all)[kGate];
    EXPECT_TRUE(mentions(reasons(all)[kWide], "all rows by one matrix")) << reasons(all)[kWide];
    EXPECT_LT(expected(all, kFew), estimated_unfused(few, h200()).front().seconds);
    const launch::Candidates many = candidates(of(32768, 128, "1536, 2048", kPlain, mode));
    EXPECT_EQ(many.ranked.front().kernel, kMany);
    const launch::Candidates gate = candidates(of(64, 128, "2048, 1536", kHalves, mode));
    ASSERT_EQ(gate.ranked.size(), 1U);
    EXPECT_EQ(gate.ranked.front().kernel, kGate);
  }
  EXPECT_TRUE(mentions(reasons(candidates(of(64, 300, "1536, 2048", kPlain)))[kMany],
                       "300 groups; 1 to 256"));
  EXPECT_TRUE(ranked(candidates(of(64, 300, "1536, 2048", kPlain)), kFew));
  EXPECT_TRUE(mentions(reasons(candidates(product(512, 1024, 512)))[kFew], "groups of rows alone"));
}

TEST(Candidates, ScaledBlocksOfGroups) {
  constexpr const char* kFew = "grouped_e4m3_tn_16x64_1x1_swap_scaled_f1_d16";
  constexpr const char* kMany = "grouped_e4m3_tn_128x128_1x1_scaled_direct_overlap3_f0_d16";
  constexpr const char* kUnscaled = "grouped_e4m3_tn_16x64_1x1_swap_f2_d16";
  const auto of = [](int64_t rows, int groups, const std::string& tail) {
    return problem(fmt::format("a: f8e4m3[{0}, 2048], s: f32[{0}, 16], o: s32[{1}], "
                               "b: f8e4m3[{1}, 1536, 2048], t: f32[{1}, 12, 16], c: f32[{0}, 1]",
                               rows, groups),
                   "y = grouped_matmul(scale_blocks(a, s, [1, 128]), "
                   "transpose(scale_blocks(b, t, [1, 128, 128])), o)\n  return cast(" +
                       tail + ", bf16)");
  };
  const problem::Problem few = of(256, 256, "silu(y) * c");
  ASSERT_TRUE(few.views.products[0].scales && few.products[0].groups);
  const launch::Candidates all = candidates(few);
  EXPECT_TRUE(ranked(all, kMany));
  EXPECT_EQ(all.ranked.front().kernel, kFew);
  EXPECT_LT(expected(all, kFew), estimated_unfused(few, h200()).front().seconds);
  EXPECT_TRUE(mentions(reasons(all)[kUnscaled], "no scales of blocks"));
  const problem::Problem many = of(32768, 64, "silu(y) * c");
  EXPECT_EQ(candidates(many).ranked.front().kernel, kMany);
  EXPECT_LT(expected(candidates(many), kMany), estimated_unfused(many, h200()).front().seconds);
  EXPECT_TRUE(mentions(reasons(candidates(of(256, 300, "y")))[kMany], "300 groups; 1 to 256"));
  EXPECT_NE(problem::problem_class(few).find(" blocks grouped"), std::string::npos);
}

bool is_portable(const std::string& kernel) {
  return kernel.starts_with("grouped_mma_");
}

// Devices other than Hopper's have the kernels of mma.sync for groups of rows. On Hopper they are
// taken only where they are named, and leave the other candidates as they are.
TEST(Candidates, GroupsOfRowsOnEveryDevice) {
  constexpr const char* kPortable = "grouped_mma_tn_64x64x32_f2_d16";
  const auto of = [](int64_t rows, const std::string& dtype, ir::Mode mode) {
    return problem(fmt::format("x: {1}[4096, 2048], i: s32[{0}], w: {1}[8, 1536, 2048], o: s32[8], "
                               "t: {1}[{0}, 1]",
                               rows, dtype),
                   "return silu(grouped_matmul(gather(x, i), transpose(w), o)) * t",
                   {.symbols = {}, .mode = mode});
  };
  for (const char* dtype : {"bf16", "f16"})
    for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager})
      for (const int64_t rows : {1, 8, 64, 4096, 32768}) {
        const problem::Problem each = of(rows, dtype, mode);
        for (const char* name : {"a100", "l40s", "rtx4090", "b200", "rtx5090"}) {
          const launch::Candidates all = candidates(each, *gpu::known_device(name));
          EXPECT_TRUE(ranked(all, kPortable)) << name;
          for (const launch::Candidate& candidate : all.ranked)
            EXPECT_TRUE(is_portable(candidate.kernel)) << candidate.kernel;
          EXPECT_TRUE(launch::gathers_before(each, *find(all, kPortable), built()));
        }
        for (const char* name : {"h100", "h200"}) {
          const gpu::DeviceInfo device = *gpu::known_device(name);
          const launch::Candidates all = candidates(each, device);
          EXPECT_GE(all.ranked.size(), 3U);
          EXPECT_EQ(reasons(all)[kPortable], "this device runs it only if it is named");
          launch::Candidates named = fused_candidates(each, built(), device, {"grouped_mma_*"});
          EXPECT_TRUE(ranked(named, kPortable));
          std::erase_if(named.ranked,
                        [](const auto& candidate) { return is_portable(candidate.kernel); });
          EXPECT_EQ(named.ranked, all.ranked);
        }
      }
  EXPECT_TRUE(mentions(
      reasons(candidates(of(8, "f32", ir::Mode::Fp32), *gpu::known_device("a100")))[kPortable],
      "no f32 inputs"));
}

// Kernels that read rows by an index compete with others, before which a kernel gathers the rows.
TEST(Candidates, RowsThatAnIndexNames) {
  constexpr const char* kGate = "grouped_tn_16x64_1x1_swap_gate_gather_f2_d16";
  constexpr const char* kFitted = "grouped_tn_144x64_1x2_swap_pingpong_gate_fit_f2_d16";
  constexpr const char* kPlain = "grouped_tn_128x128_1x1_pingpong_direct_gather_f1_d16";
  constexpr const char* kDense = "grouped_tn_128x128_1x1_pingpong_direct_f1_d16";
  const auto of = [](int64_t rows, const std::string& index, const std::string& body) {
    return problem(fmt::format("x: bf16[4096, 2048], i: {}[{}], w: bf16[128, 1536, 2048], "
                               "v: bf16[128, 1536, 2048], o: s32[128]",
                               index, rows),
                   body);
  };
  constexpr const char* kOne =
      "y = grouped_matmul(gather(x, i), transpose(w), o)\n  return silu(y)";
  constexpr const char* kTwo =
      "a = gather(x, i)\n  y = grouped_matmul(a, transpose(w), o)\n"
      "  return silu(y) * grouped_matmul(a, transpose(v), o)";
  for (const char* index : {"s32", "s64"}) {
    const problem::Problem many = of(32768, index, kOne);
    const launch::Candidates all = candidates(many);
    EXPECT_EQ(all.ranked.front().kernel, kPlain);
    ASSERT_TRUE(ranked(all, kDense));
    EXPECT_LT(expected(all, kPlain), expected(all, kDense));
    const templates::Catalog& templates = built();
    for (const launch::Candidate& each : all.ranked)
      EXPECT_EQ(launch::gathers_before(many, each, templates), each.kernel != kPlain)
          << each.kernel;
    EXPECT_TRUE(launch::gathers_before(many, {}, templates));
    EXPECT_TRUE(mentions(reasons(all)[kGate], "the kernel hands over 2")) << reasons(all)[kGate];
    const launch::Candidates gate = candidates(of(64, index, kTwo));
    ASSERT_EQ(gate.ranked.size(), 2U);
    EXPECT_EQ(gate.ranked.front().kernel, kGate);
    EXPECT_EQ(gate.ranked.back().kernel, kFitted);
  }
  const problem::Problem plain = problem("x: bf16[64, 2048], w: bf16[128, 1536, 2048], o: s32[128]",
                                         "return silu(grouped_matmul(x, transpose(w), o))");
  EXPECT_TRUE(mentions(reasons(candidates(plain))[kPlain], "rows by an index alone"));
  EXPECT_FALSE(launch::gathers_before(plain, {}, built()));
  // What something else reads, too, is gathered for it, and not again.
  const auto shared =
      make("x: bf16[4096, 2048], i: s32[64], w: bf16[128, 1536, 2048], o: s32[128]",
           "a = gather(x, i)\n  return relu(grouped_matmul(a, transpose(w), o)), a");
  ASSERT_TRUE(shared.problem);
  EXPECT_FALSE(names_rows(*shared.problem));
}

// The kernels of groups know the rows' groups; before the unfused path's tail a kernel numbers
// them.
TEST(Candidates, RowsOfGroups) {
  constexpr const char* kFew = "grouped_tn_16x64_1x1_swap_f1_d16";
  constexpr const char* kMany = "grouped_tn_128x128_1x1_pingpong_direct_f1_d16";
  constexpr const char* kGate = "grouped_tt_16x64_1x1_swap_gate_f2_d16";
  const auto of = [](int64_t rows, const std::string& weights, const std::string& body) {
    return problem(fmt::format("x: bf16[{}, 2048], w: bf16[128, {}], o: s32[128], b: bf16[128, "
                               "1536]",
                               rows, weights),
                   fmt::format("g = group_ids(o, [{}])\n  {}", rows, body));
  };
  const std::string plain = "return silu(grouped_matmul(x, transpose(w), o) + gather(b, g))";
  for (const auto& [rows, first] : {std::pair(128, kFew), std::pair(32768, kMany)}) {
    const problem::Problem each = of(rows, "1536, 2048", plain);
    const launch::Candidates all = candidates(each);
    EXPECT_EQ(all.ranked.front().kernel, first);
    EXPECT_EQ(all.ranked.size(), 2U);
    for (const launch::Candidate& candidate : all.ranked) {
      EXPECT_FALSE(launch::numbers_before(each, candidate));
      // In a vector's slot, and not in the context.
      EXPECT_EQ(serialize(*candidate.binding).find("context"), std::string::npos)
          << serialize(*candidate.binding);
    }
    EXPECT_TRUE(
        launch::numbers_before(each, {.kind = launch::CandidateKind::Unfused, .kernel = {}}));
    EXPECT_NE(problem_class(each).find(" by group"), std::string::npos);
  }
  const launch::Candidates gate = candidates(
      of(64, "2048, 1536",
         "h = grouped_matmul(x, w, o) + gather(b, g)\n  return silu(h[:, :768]) * h[:, 768:]"));
  ASSERT_EQ(gate.ranked.size(), 1U);
  EXPECT_EQ(gate.ranked.front().kernel, kGate);
  // No other kernel knows groups, and a tail's least of all.
  for (const templates::Template& kernel : built().templates())
    if (kernel.family == templates::Family::Pointwise) {
      problem::Problem tail = of(128, "1536, 2048", plain);
      tail.products.clear();
      const launch::Legality legal = launch::legality(tail, kernel, h200());
      ASSERT_TRUE(std::holds_alternative<std::string>(legal)) << kernel.name;
      EXPECT_EQ(std::get<std::string>(legal), "it knows no groups of rows");
    }
}

// Kernels that read weights in MXFP4 compete with others, before which a kernel widens the weights.
TEST(Candidates, WeightsInMxFp4) {
  constexpr const char* kCodes = "grouped_codes_mxfp4_tn_16x64_1x1_swap_f1_d16";
  constexpr const char* kGate = "grouped_codes_mxfp4_tn_16x64_1x1_swap_gate_f2_d16";
  constexpr const char* kWidened = "grouped_tn_16x64_1x1_swap_f1_d16";
  const auto of = [](int64_t rows, int n, int k, const std::string& body,
                     ir::Mode mode = ir::Mode::Fp32) {
    return problem(fmt::format("x: bf16[{0}, {2}], w: u8[32, {1}, {3}], u: u8[32, {1}, {4}], "
                               "v: u8[32, {2}, {5}], t: u8[32, {2}, {6}], o: s32[32]",
                               rows, n, k, k / 2, k / 32, n / 2, n / 32),
                   body, {.symbols = {}, .mode = mode});
  };
  constexpr const char* kOne = "return silu(grouped_matmul(x, transpose(mxfp4(w, u)), o))";
  constexpr const char* kByTurns =
      "h = grouped_matmul(x, transpose(mxfp4(w, u)), o)\n  return silu(h[:, ::2]) * h[:, 1::2]";
  for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager}) {
    const problem::Problem few = of(64, 5760, 2880, kOne, mode);
    const launch::Candidates all = candidates(few);
    EXPECT_EQ(all.ranked.front().kernel, kCodes);
    ASSERT_TRUE(ranked(all, kWidened));
    // Widening reads and writes every weight.
    EXPECT_LT(2 * expected(all, kCodes), expected(all, kWidened));
    EXPECT_LT(2 * expected(all, kCodes), estimated_unfused(few, h200()).front().seconds);
    for (const launch::Candidate& each : all.ranked)
      EXPECT_EQ(launch::widens_before(few, each, built()), each.kernel != kCodes) << each.kernel;
    EXPECT_TRUE(launch::widens_before(few, {}, built()));
    EXPECT_TRUE(mentions(reasons(all)[kGate], "the kernel hands over 2")) << reasons(all)[kGate];
    EXPECT_EQ(candidates(of(64, 5760, 2880, kByTurns, mode)).ranked.front().kernel, kGate);
  }
  // Weights that lie along N are widened first.
  const problem::Problem along_n = of(64, 1024, 2048, "return grouped_matmul(x, mxfp4(v, t), o)");
  EXPECT_TRUE(mentions(reasons(candidates(along_n))[kCodes], "B; contiguous along k; 1024"));
  // Few weights of a column share a scale with others.
  const problem::Problem part =
      problem("x: bf16[64, 48], w: u8[32, 128, 32], u: u8[32, 128, 2], o: s32[32]",
              "return grouped_matmul(x, transpose(mxfp4(w, u))[:, 0:48, :], o)");
  EXPECT_TRUE(mentions(reasons(candidates(part))[kCodes], "k; multiple of 32; 48"));
  const problem::Problem dense = problem("x: bf16[64, 2048], w: bf16[32, 1024, 2048], o: s32[32]",
                                         "return silu(grouped_matmul(x, transpose(w), o))");
  EXPECT_TRUE(mentions(reasons(candidates(dense))[kCodes], "in codes alone"));
  EXPECT_FALSE(launch::widens_before(dense, {}, built()));
}

// Kernels that read integers in codes, and what they take.
TEST(Candidates, WeightsInIntegers) {
  constexpr const char* kCodes = "grouped_codes_i4_bf16_tn_16x64_1x1_swap_f1_d16";
  constexpr const char* kMxFp4 = "grouped_codes_mxfp4_tn_16x64_1x1_swap_f1_d16";
  constexpr const char* kWidened = "grouped_tn_16x64_1x1_swap_f1_d16";
  const auto of = [](const std::string& codes, const std::string& scales, const std::string& call,
                     ir::Mode mode = ir::Mode::Fp32) {
    return problem(fmt::format("x: bf16[64, 2048], w: {}, u: {}, z: u8[32, 1024, 32], o: s32[32]",
                               codes, scales),
                   fmt::format("return silu(grouped_matmul(x, transpose({}), o))", call),
                   {.symbols = {}, .mode = mode});
  };
  constexpr const char *kHalves = "u8[32, 1024, 1024]", *kBlocks = "bf16[32, 1024, 32]";
  for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager})
    for (const char* call : {"decode(w, u, z)", "decode(w, u, zero=8)"}) {
      const problem::Problem few = of(kHalves, kBlocks, call, mode);
      const launch::Candidates all = candidates(few);
      EXPECT_EQ(all.ranked.front().kernel, kCodes);
      EXPECT_LT(2 * expected(all, kCodes), expected(all, kWidened));
      EXPECT_FALSE(launch::widens_before(few, all.ranked.front(), built()));
      EXPECT_TRUE(mentions(reasons(all)[kMxFp4], "made for mxfp4, the weights are u4"));
    }
  EXPECT_TRUE(
      ranked(candidates(of("s8[32, 1024, 1024]", "bf16[32, 1024, 1]", "decode(w, u)")), kCodes));
  const auto why = [&](const std::string& codes, const std::string& scales,
                       const std::string& call) {
    return reasons(candidates(of(codes, scales, call)))[kCodes];
  };
  EXPECT_TRUE(mentions(why(kHalves, "f32[32, 1024, 32]", "decode(w, u)"), "A's dtype; not of f32"));
  EXPECT_TRUE(mentions(why("u8[32, 1024, 2048]", kBlocks, "decode(w, u, bits=8)"),
                       "integers of 4 bits; u8"));
  EXPECT_TRUE(mentions(why(kHalves, "bf16[32, 1024, 128]", "decode(w, u)"),
                       "scales of 16 weights; 32, 64"));
}

constexpr const char* kOfHalfTheRows = "packed_wgmma_i4_bf16_128x128_1x2_pingpong_f2_d16";
constexpr const char* kWhole = "packed_wgmma_i4_bf16_256x128_1x2_direct_f0_d16";
constexpr const char* kTail = "packed_wgmma_i4_bf16_256x128_1x2_tail_direct_f0_d16";  // shared

// Codes of blocks of 64 x 64, then a scale of 16 bits for each 128 of k.
problem::Problem packed(int64_t m, int64_t n, int64_t k) {
  return problem(fmt::format("a: bf16[M, {}], w: u8[{}]", k, 256 + n * k / 2 + n * k / 128 * 2),
                 fmt::format("y = a @ transpose(unpack(w, [{}, {}], weights=s8, bits=4, group=128, "
                             "scales=bf16, dtype=bf16))\n  return y",
                             n, k),
                 {{{"M", m}}});
}

// Hopper has forms of its own; other devices take those for all of them.
TEST(Candidates, FormsForAllDevicesAreNamedOnHopper) {
  constexpr const char* kPortable = "packed_mma_i4_bf16_8x32_f2_d16";
  ASSERT_NE(built().find(kPortable), nullptr);
  const problem::Problem made = packed(4, 4096, 4096);
  EXPECT_TRUE(mentions(reasons(candidates(made))[kPortable], "only if it is named"));
  const launch::Candidates named = tune::fused_candidates(made, built(), h200(), {"packed_mma_*"});
  EXPECT_TRUE(ranked(named, kPortable));
  for (const char* device : {"a100", "l40s"})
    EXPECT_TRUE(ranked(candidates(made, *gpu::known_device(device)), kPortable)) << device;
}

// 4-bit weights with scales of u8 are multiplied by s8 alone; only their kernels read them.
TEST(Candidates, WholeWeightsAreMultipliedByBytes) {
  constexpr const char* kBytes = "packed_wgmma_i4_s8_64x128_1x1_f2_d16";
  ASSERT_NE(built().find(kBytes), nullptr);
  const problem::Problem made =
      problem(fmt::format("a: s8[64, 4096], w: u8[{}], t: f32[64, 1], c: f32[4096]",
                          256 + 4096 * 4096 / 2 + 4096 * 32),
              "y = a @ transpose(unpack(w, [4096, 4096], weights=s8, bits=4, group=128, scales=u8, "
              "dtype=s8))\n  return cast(cast(y, f32) * t * c, bf16)");
  for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager}) {
    problem::Problem each = made;
    each.mode = mode;
    const launch::Candidates all = tune::fused_candidates(each, built(), h200(), {"packed_*"});
    EXPECT_TRUE(ranked(all, kBytes)) << reasons(all)[kBytes];
    EXPECT_TRUE(mentions(reasons(all)[kOfHalfTheRows], "16-bit scales; scales=u8"));
  }
  EXPECT_TRUE(mentions(reasons(tune::fused_candidates(packed(64, 4096, 4096), built(), h200(),
                                                      {"packed_*"}))[kBytes],
                       "8-bit scales; scales=bf16"));
}

// 112 tiles for each 256 rows; at most 66 that are left over take half a round. A kernel that
// shares them is expected to be faster by it, and not otherwise.
TEST(Candidates, BlocksShareTheLastTiles) {
  for (const auto& [m, whole, shared] :
       {std::tuple{256, 1.0, 1.0}, {512, 2.0, 2.0}, {1024, 4.0, 3.5}, {1200, 5.0, 4.5}}) {
    const problem::Problem made = packed(m, 14336, 4096);
    EXPECT_EQ(waves(made, *built().find(kWhole), 1, h200()), whole) << m;
    EXPECT_EQ(waves(made, *built().find(kTail), 1, h200()), shared) << m;
    const launch::Candidates all = candidates(made);
    const double saved = 1 - expected(all, kTail) / expected(all, kWhole);
    EXPECT_NEAR(saved, (whole - shared) / whole, 0.05) << m;
  }
}

// A tile has no more rows than the problem fills: padding is work. Where both are full, the larger
// tile loads less.
TEST(Candidates, PackedWeightsTakeTilesOfTheirRows) {
  for (const auto& [n, k] : {std::pair{14336, 4096}, {4096, 11008}, {12288, 4096}}) {
    const launch::Candidates few = candidates(packed(128, n, k));
    EXPECT_LT(expected(few, kOfHalfTheRows), expected(few, kWhole)) << n << " x " << k;
    const launch::Candidates many = candidates(packed(1024, n, k));
    EXPECT_LT(expected(many, kWhole), expected(many, kOfHalfTheRows)) << n << " x " << k;
  }
}

std::string best(int64_t m, int64_t n, int64_t k) {
  const launch::Candidates all = candidates(product(m, n, k));
  return all.ranked.empty() ? "" : all.ranked[0].kernel;
}

TEST(Candidates, ExpectedTimesRiseDownTheRanking) {
  const launch::Candidates all = candidates(product(256, 4096, 4096));
  ASSERT_EQ(all.expected.size(), all.ranked.size());
  EXPECT_TRUE(std::is_sorted(all.expected.begin(), all.expected.end()));
}

// Our own kernels have the problem's orientation at the hole, and stream the weights.
bool is_for_few_rows(const std::string& name) {
  const templates::Template& kernel = *built().find(name);
  return kernel.hole.swapped || kernel.schedule == templates::Schedule::Streaming ||
         kernel.schedule == templates::Schedule::Dot;
}

// The CUTLASS templates exist where CUTLASS is installed.
TEST(Candidates, FewRowsPreferSwappedTiles) {
  if (built().find("cutlass_tn_64x16x128_1x1_pingpong_swap_f1") == nullptr) {
    EXPECT_NE(best(4096, 4096, 4096), kAnything);
    return;
  }
  for (const int64_t m : {1, 4, 8, 16}) {
    const std::string name = best(m, 4096, 11008);
    EXPECT_TRUE(is_for_few_rows(name)) << m << ": " << name;
  }
  const std::string large = best(4096, 14336, 4096);
  EXPECT_FALSE(is_for_few_rows(large)) << large;
  EXPECT_EQ(built().find(large)->arch, "sm_90a") << large;
}

// For one row of A, a kernel that reads the weights once is faster than tiles of 128 rows; it
// computes no more rows.
TEST(Candidates, DotProductsAreForTheirRowsAlone) {
  constexpr const char* kDot = "dot_tn_1x2_k4_f2_d16";
  const launch::Candidates one = candidates(product(1, 7168, 16384));
  EXPECT_LT(expected(one, kDot), expected(one, kWide));
  const launch::Candidates two = candidates(product(2, 7168, 16384));
  EXPECT_FALSE(ranked(two, kDot));
  EXPECT_TRUE(mentions(reasons(two)[kDot], "at most 1; 2"));
}

TEST(Candidates, VariantsHoldTheCandidateAndAreAllLegal) {
  for (const auto& [m, n, k] : {std::tuple<int, int, int>{16, 4096, 4096}, {8192, 8192, 4096}}) {
    const problem::Problem made = product(m, n, k);
    for (const launch::Candidate& candidate : candidates(made).ranked) {
      const auto& kernel = *built().find(candidate.kernel);
      const auto all = variants(candidate, kernel, made, h200());
      ASSERT_FALSE(all.empty());
      EXPECT_EQ(all[0], candidate);
      for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(std::count(all.begin(), all.end(), all[i]), 1) << to_string(all[i]);
        EXPECT_EQ(*launch::parse_candidate(to_string(all[i])), all[i]);
        const launch::Legality legal = launch::legality(made, kernel, h200(), all[i]);
        const auto* reason = std::get_if<std::string>(&legal);
        EXPECT_EQ(reason ? *reason : "", "") << to_string(all[i]);
        EXPECT_EQ(all[i].binding, candidate.binding);
      }
    }
  }
}

std::string words(const attacca_operand& at) {
  return fmt::format("{}: {},{} ({})", at.pointer, at.row_stride, at.column_stride,
                     at.batch_stride);
}

std::string words(const attacca_vector& at) {
  return fmt::format("{}: {} ({}) of {}", at.pointer, at.stride, at.batch_stride, at.bytes);
}

// Bytes of codes and of scales, for weights whose strides are their own.
TEST(Arguments, OfWeightsInMxFp4) {
  for (const bool by_turns : {false, true}) {
    const problem::Problem made = problem(
        "x: bf16[6, 96], w: u8[3, 128, 48], u: u8[3, 128, 3], o: s32[3]",
        fmt::format("h = grouped_matmul(x, transpose(mxfp4(w, u)), o)\n  return silu({}) * {}",
                    by_turns ? "h[:, 1::2]" : "h[:, 64:]", by_turns ? "h[:, ::2]" : "h[:, :64]"));
    templates::Template kernel;
    kernel.hole.accumulators = 2;
    kernel.hole.result_bits = {16};
    const auto placed = bind(made.epilogue, kernel.hole);
    ASSERT_TRUE(std::holds_alternative<epilogue::Binding>(placed)) << std::get<std::string>(placed);
    const auto& binding = std::get<epilogue::Binding>(placed);
    attacca_gemm_arguments g = launch::describe(made, kernel, binding, {}, 132);
    launch::set_addresses(made, made.factors(), binding, addresses(made, 0x10000), g);
    const int64_t column = by_turns ? 2 * 96 : 96, first = by_turns ? 96 : 64 * 96;
    // The addresses of a, b, offsets and the scales are 0x10000 and so on.
    const bool swapped = g.b.pointer != reinterpret_cast<void*>(0x20000);
    const attacca_operand &low = swapped ? g.b1 : g.b, &high = swapped ? g.b : g.b1;
    EXPECT_EQ(words(low), fmt::format("0x20000: 1,{} (12288)", column));
    EXPECT_EQ(words(high), fmt::format("0x{:x}: 1,{} (12288)", 0x20000 + first / 2, column));
    EXPECT_EQ(g.codes.scales[swapped], reinterpret_cast<void*>(0x40000));
    EXPECT_EQ(g.codes.scales[!swapped], reinterpret_cast<void*>(0x40000 + first / 32));
  }
}

TEST(Arguments, OfWeightsInIntegers) {
  const problem::Problem made =
      problem("x: bf16[6, 128], w: u8[3, 96, 64], u: bf16[3, 96, 2], z: u8[3, 96, 2], o: s32[3]",
              "h = grouped_matmul(x, transpose(decode(w, u, z)), o)\n"
              "  return silu(h[:, :48]) * h[:, 48:]");
  templates::Template kernel;
  kernel.hole.accumulators = 2;
  kernel.hole.result_bits = {16};
  const auto placed = bind(made.epilogue, kernel.hole);
  ASSERT_TRUE(std::holds_alternative<epilogue::Binding>(placed)) << std::get<std::string>(placed);
  const auto& binding = std::get<epilogue::Binding>(placed);
  attacca_gemm_arguments g = launch::describe(made, kernel, binding, {}, 132);
  launch::set_addresses(made, made.factors(), binding, addresses(made, 0x10000), g);
  const int64_t first = 48 * 128;
  EXPECT_EQ(words(g.b), "0x20000: 1,128 (12288)");
  EXPECT_EQ(words(g.b1), fmt::format("0x{:x}: 1,128 (12288)", 0x20000 + first / 2));
  EXPECT_EQ(g.codes.block, 64);
  EXPECT_EQ(g.codes.has_zeros, 1);
  // The addresses of a, b, offsets, scales and zero points are 0x10000 and so on.
  EXPECT_EQ(g.codes.scales[0], reinterpret_cast<void*>(0x40000));
  EXPECT_EQ(g.codes.scales[1], reinterpret_cast<void*>(0x40000 + first / 64 * 2));
  EXPECT_EQ(g.codes.zeros[0], reinterpret_cast<void*>(0x50000));
  EXPECT_EQ(g.codes.zeros[1], reinterpret_cast<void*>(0x50000 + first / 64));
}

TEST(Arguments, SayWhereEverythingIs) {
  const problem::Problem made = problem(
      "a: bf16[2, 4, 16], b: bf16[16, 8], x: f32[2, 1, 8], s: bf16[4, 1], r: bf16[2, 4, 16], z: "
      "f64[]",
      "return cast((a @ b + x) * s + r[:, :, 8:] + cast(z, f32), bf16)");
  epilogue::HoleSignature hole;
  hole.full_bits = {16};
  hole.rows = hole.columns = 1;
  hole.result_bits = {16};
  for (const bool swapped : {false, true}) {
    templates::Template kernel;
    kernel.hole = hole;
    kernel.hole.swapped = swapped;
    const auto placed = bind(made.epilogue, kernel.hole);
    ASSERT_TRUE(std::holds_alternative<epilogue::Binding>(placed)) << std::get<std::string>(placed);
    const auto& binding = std::get<epilogue::Binding>(placed);
    launch::Candidate candidate;
    candidate.swizzle = 4;
    candidate.raster = 2;
    candidate.splits = 3;
    attacca_gemm_arguments g = launch::describe(made, kernel, binding, candidate, 132);
    const problem::Addresses at = addresses(made, 0x1000);
    launch::set_addresses(made, made.factors(), binding, at, g);
    EXPECT_EQ(fmt::format("{} {} {} {}", g.m, g.n, g.k, g.batch), "4 8 16 2");
    EXPECT_EQ(fmt::format("{} {} {} {}", g.sm_count, g.swizzle, g.raster, g.splits), "132 4 2 3");
    EXPECT_EQ(words(g.a), "0x1000: 16,1 (64)");
    EXPECT_EQ(words(g.b), "0x2000: 8,1 (0)");
    for (size_t i = 0; i < made.views.inputs.size(); ++i) {
      const auto where = fmt::format("{}", at.inputs[i]);
      if (made.epilogue.inputs[i].role == epilogue::Role::Row) {
        EXPECT_EQ(words(swapped ? g.column[0] : g.row[0]), where + ": 1 (8) of 4");
      } else if (made.epilogue.inputs[i].role == epilogue::Role::Column) {
        EXPECT_EQ(words(swapped ? g.row[0] : g.column[0]), where + ": 1 (0) of 2");
      } else if (made.epilogue.inputs[i].role == epilogue::Role::Full) {
        EXPECT_EQ(words(g.full[0]), fmt::format("0x{:x}: 16,1 (64)", 0x1000 * (i + 3) + 16));
      } else if (made.epilogue.inputs[i].role == epilogue::Role::Scalar) {
        EXPECT_EQ(words(g.context.operand[0]), where + ": 0,0 (0)");
      }
    }
    EXPECT_EQ(words(g.result[0]), fmt::format("{}: 8,1 (32)", at.outputs[0]));
    EXPECT_EQ(fmt::format("{} {} {}", g.context.rows, g.context.columns, g.context.batches),
              "4 8 2");
  }
}

}  // namespace
}  // namespace attacca::tune
