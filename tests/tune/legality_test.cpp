// What is ranked is never refused: random problems against every built template, on the stand-in
// for the driver (ATTACCA_LIBCUDA), with addresses exactly as aligned as the problems say.
#include "launch/legality.hpp"

#include <map>
#include <memory>
#include <random>
#include <set>
#include <tuple>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "launch/fused.hpp"
#include "mentions.hpp"
#include "problem_testing.hpp"
#include "tune/candidates.hpp"

namespace attacca::tune {
namespace {

using testing::make;

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

class Source {
 public:
  explicit Source(uint32_t seed) : random_(seed) {}

  template <class T>
  T pick(const std::vector<T>& from) {
    return from[random_() % from.size()];
  }
  int number(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  // A matrix, dense or with rows that lie apart or all at one place.
  std::string matrix(const std::string& name, const std::string& dtype, int rows, int columns) {
    const std::string batches = batched_ && number(2) ? "3, " : "";
    const std::string shape = fmt::format("{}{}, {}", batches, rows, columns);
    const int apart = columns + pick<int>({1, 8, 16});
    if (batches.empty() && number(4) == 0)
      return fmt::format("{}: {}[{}; {}, 1]", name, dtype, shape, number(5) ? apart : 0);
    return fmt::format("{}: {}[{}]", name, dtype, shape);
  }

  // "PARAMETERS) {\nBODY" of a product, a gate, packed weights, bytes, scaled blocks or groups of
  // rows, and a tail.
  std::pair<std::string, std::string> problem() {
    batched_ = number(3) == 0;
    m_ = pick<int>({1, 2, 8, 16, 64, 100, 300});
    n_ = pick<int>({1, 8, 24, 64, 100, 256, 1024});
    k_ = pick<int>({0, 1, 8, 16, 64, 65, 128, 400});
    switch (number(8)) {
      case 0:
        return gate();
      case 1:
        return packed();
      case 2:
        return scaled();
      case 3:
        return widened();
      case 4:
        return grouped();
      default:
        return product();
    }
  }

 private:
  std::pair<std::string, std::string> product() {
    const auto [a, b, attributes] = pick<std::tuple<const char*, const char*, const char*>>(
        {{"bf16", "bf16", ""},
         {"bf16", "bf16", ""},
         {"f16", "f16", ""},
         {"s8", "s8", ""},
         {"u8", "s8", ""},
         {"f8e4m3", "f8e5m2", ""},
         {"f8e4m3", "f8e4m3", ", fast=true"},
         {"f32", "f32", ""}});
    const bool a_transposed = number(5) == 0, b_transposed = number(3) > 0;
    std::string parameters = (a_transposed ? matrix("a", a, k_, m_) : matrix("a", a, m_, k_)) +
                             ", " +
                             (b_transposed ? matrix("b", b, n_, k_) : matrix("b", b, k_, n_));
    const std::string body =
        fmt::format("y = cast(matmul({}, {}{}), f32)", a_transposed ? "transpose(a)" : "a",
                    b_transposed ? "transpose(b)" : "b", attributes);
    return tail(parameters, body);
  }

  std::pair<std::string, std::string> gate() {
    const std::string dtype = pick<const char*>({"bf16", "bf16", "f16", "f8e4m3"});
    const std::string a = matrix("a", dtype, m_, k_);
    const auto [weights, products] = pick<std::pair<std::string, std::string>>(
        {{matrix("v", dtype, n_, k_) + ", " + matrix("w", dtype, n_, k_),
          "p = a @ transpose(v); q = a @ transpose(w)"},
         {matrix("w", dtype, 2 * n_, k_),
          fmt::format("h = a @ transpose(w); p = h[..., :{0}]; q = h[..., {0}:]", n_)},
         {matrix("w", dtype, 2 * n_, k_),
          "h = a @ transpose(w); p = h[..., ::2]; q = h[..., 1::2]"},
         {matrix("w", dtype, k_, 2 * n_), "h = a @ w; q = h[..., ::2]; p = h[..., 1::2]"}});
    return tail(a + ", " + weights, products + "\ny = cast(silu(p) * q, f32)");
  }

  std::pair<std::string, std::string> packed() {
    batched_ = false;
    n_ = 64 * (1 + number(4));
    k_ = 64 * (1 + number(4));
    const auto [dtype, scales, unpacked] =
        pick<std::tuple<const char*, const char*, const char*>>({{"bf16", "bf16", "bf16"},
                                                                 {"f16", "f16", "f16"},
                                                                 {"bf16", "f32", "f32"},
                                                                 {"s8", "u8", "s8"}});
    const std::string_view of_scales = scales;
    const int width = of_scales == "f32" ? 4 : of_scales == "u8" ? 1 : 2;
    const int bits = of_scales == "u8" ? 4 : pick<int>({4, 8}),
              group = of_scales == "u8" ? 128 : 64;
    if (of_scales == "u8") k_ *= 2;
    const int groups = k_ / group;
    const int bytes = 256 + n_ * k_ * bits / 8 + (n_ * groups * width + 255) / 256 * 256;
    return tail(matrix("a", dtype, m_, k_) + fmt::format(", w: u8[{}]", bytes),
                fmt::format("y = cast(a @ transpose(unpack(w, [{}, {}], weights=s8, "
                            "bits={}, group={}, scales={}, dtype={})), f32)",
                            n_, k_, bits, group, scales, unpacked));
  }

  std::pair<std::string, std::string> widened() {
    const char* dtype = pick<const char*>({"bf16", "f16"});
    const char* bytes = pick<const char*>({"s8", "u8"});
    const bool transposed = number(2);
    return tail(
        matrix("a", dtype, m_, k_) + ", " +
            (transposed ? matrix("b", bytes, n_, k_) : matrix("b", bytes, k_, n_)),
        fmt::format("y = cast(a @ {}(cast(b, {})), f32)", transposed ? "transpose" : "", dtype));
  }

  std::pair<std::string, std::string> grouped() {
    batched_ = false;
    const char* dtype = pick<const char*>({"bf16", "f16"});
    const bool transposed = number(2), halves = number(2);
    const int groups = pick<int>({1, 3, 40}), columns = halves ? 2 * n_ : n_;
    const auto [rows, row] = transposed ? std::pair(columns, k_) : std::pair(k_, columns);
    const std::string h =
        fmt::format("h = grouped_matmul(a, {}(w), o)\n", transposed ? "transpose" : "");
    return tail(matrix("a", dtype, m_, k_) +
                    fmt::format(", w: {0}[{1}, {2}, {3}], o: s32[{1}]", dtype, groups, rows, row),
                h + (halves ? fmt::format("y = cast(silu(h[:, :{0}]) * h[:, {0}:], f32)", n_)
                            : "y = cast(h, f32)"));
  }

  std::pair<std::string, std::string> scaled() {
    batched_ = false;
    k_ = pick<int>({64, 128, 320});
    const int blocks = (k_ + 127) / 128;
    return tail(
        fmt::format("a: f8e4m3[{0}, {1}], s: f32[{0}, {2}], b: f8e4m3[{3}, {1}], t: f32[{4}, "
                    "{2}]",
                    m_, k_, blocks, n_, (n_ + 127) / 128),
        "y = scale_blocks(a, s, [1, 128]) @ transpose(scale_blocks(b, t, [128, 128]))");
  }

  std::pair<std::string, std::string> tail(std::string parameters, std::string body) {
    std::string value = "y";
    if (number(2)) parameters += fmt::format(", c: f32[{}]", n_), value += " + c";
    if (number(3) == 0) parameters += fmt::format(", d: bf16[{}, 1]", m_), value += " * d";
    if (number(2)) parameters += ", " + matrix("r", "bf16", m_, n_), value += " + r";
    if (number(4) == 0) parameters += ", z: f64[]", value += " + cast(z, f32)";
    const char* result = pick<const char*>({"bf16", "f16", "f32", "s8", "f8e4m3"});
    return {parameters, fmt::format("{}\nreturn cast({}, {})", body, value, result)};
  }

  std::mt19937 random_;
  bool batched_ = false;
  int m_ = 0, n_ = 0, k_ = 0;
};

// A kernel of nothing: what is launched is not run.
std::shared_ptr<const launch::Kernel> empty_kernel(const templates::Template& form) {
  auto module = gpu::Module::load(toolbox()->device(), std::string_view("cubin"));
  const auto function = module->function(form.kernel);
  return std::make_shared<const launch::Kernel>(
      launch::Kernel{*std::move(module), *function, &form, {}});
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
  for (uint32_t seed = 0; seed < 3000; ++seed) {
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
        const auto runnable =
            launch::make_fused(toolbox(), problem, candidate, kernels.at(candidate.kernel));
        std::vector<char> memory(runnable->workspace_bytes() + 256);
        void* workspace = memory.data();
        size_t space = memory.size();
        std::align(256, runnable->workspace_bytes(), workspace, space);
        const Status launched = runnable->launch(at, workspace, nullptr);
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
}

}  // namespace
}  // namespace attacca::tune
