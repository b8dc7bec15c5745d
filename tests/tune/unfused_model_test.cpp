// What is expected of the unfused path, and when it is taken unmeasured.
#include "tune/model/unfused_model.hpp"

#include <cmath>

#include "gtest/gtest.h"

#include "gpu/devices.hpp"
#include "problem_testing.hpp"
#include "tune/candidates.hpp"
#include "tune/model/ranking_tree.hpp"

namespace attacca::tune {
namespace {

problem::Problem problem_of(const std::string& parameters, const std::string& body,
                            int64_t m = 64) {
  const auto made = testing::make(parameters, body, {.symbols = {{"M", m}}});
  return made.problem.value();
}

double feature(const problem::Problem& problem, UnfusedFeature wanted, size_t way = 0) {
  return unfused_features(problem, launch::vendor_epilogues(problem)[way],
                          *gpu::known_device("h200"))[size_t(wanted)];
}

double seconds(const problem::Problem& problem) {
  return estimated_unfused(problem, *gpu::known_device("h200")).front().seconds;
}

TEST(UnfusedModel, KnowsWhatIsLaunched) {
  const std::string parameters = "a: bf16[M, 512], w: bf16[256, 512], b: bf16[256]";
  const problem::Problem bare =
      problem_of("a: bf16[M, 512], w: bf16[256, 512]", "return a @ transpose(w)");
  const problem::Problem biased = problem_of(parameters, "return a @ transpose(w) + b");
  EXPECT_EQ(feature(bare, UnfusedFeature::tail_kernel), 0);
  EXPECT_EQ(feature(biased, UnfusedFeature::tail_kernel), 1);
  // The library adds the bias itself: no second kernel.
  EXPECT_EQ(feature(biased, UnfusedFeature::absorbed, 1), 1);
  EXPECT_EQ(feature(biased, UnfusedFeature::tail_kernel, 1), 0);
  EXPECT_NEAR(feature(biased, UnfusedFeature::log_estimate, 1),
              feature(bare, UnfusedFeature::log_estimate), 1e-9);
  // Nor does it for a sum that the graph stores as bf16.
  const problem::Problem summed = problem_of(
      parameters, "return cast(matmul(a, transpose(w), out=f32) + b, bf16, compute=f32)");
  EXPECT_EQ(feature(summed, UnfusedFeature::stored_bytes), 4);
  EXPECT_EQ(feature(summed, UnfusedFeature::stored_bytes, 1), 2);
  EXPECT_EQ(feature(summed, UnfusedFeature::tail_kernel, 1), 0);
  EXPECT_NEAR(feature(summed, UnfusedFeature::log_estimate, 1),
              feature(bare, UnfusedFeature::log_estimate), 1e-9);
  const problem::Problem two = problem_of("a: bf16[M, 512], w: bf16[256, 512], v: bf16[256, 512]",
                                          "return silu(a @ transpose(w)) * (a @ transpose(v))");
  EXPECT_EQ(feature(two, UnfusedFeature::products), 2);
  EXPECT_NEAR(feature(two, UnfusedFeature::log_product),
              feature(bare, UnfusedFeature::log_product) + std::log(2.0), 1e-9);
}

TEST(UnfusedModel, KnowsCopiesAndAlignment) {
  const auto eighths = [](const std::string& n, const std::string& k) {
    return problem_of("a: f8e4m3[M, " + k + "], w: f8e4m3[" + n + ", " + k + "]",
                      "return a @ transpose(w)");
  };
  EXPECT_EQ(feature(eighths("256", "512"), UnfusedFeature::copies), 0);
  EXPECT_EQ(feature(eighths("256", "520"), UnfusedFeature::copies), 2);
  EXPECT_EQ(feature(eighths("250", "512"), UnfusedFeature::copies), 2);
  const auto bytes = [](const std::string& k) {
    return problem_of("a: s8[M, " + k + "], w: s8[256, " + k + "]", "return a @ transpose(w)");
  };
  EXPECT_EQ(feature(bytes("512"), UnfusedFeature::plain), 0);
  EXPECT_EQ(feature(bytes("511"), UnfusedFeature::plain), 1);
  const auto halves = [](const std::string& k) {
    return problem_of("a: bf16[M, " + k + "], w: bf16[4096, " + k + "]", "return a @ transpose(w)",
                      2048);
  };
  EXPECT_EQ(feature(halves("4096"), UnfusedFeature::aligned_a), 16);
  EXPECT_EQ(feature(halves("4094"), UnfusedFeature::aligned_a), 4);
  EXPECT_EQ(feature(halves("4095"), UnfusedFeature::aligned_b), 2);
  EXPECT_GT(seconds(halves("4095")), 1.5 * seconds(halves("4096")));
}

// Times by one NVIDIA H200, of problems that the trees were not trained on: shapes of LAYERS in
// docs/benchmarks, bare products by cuBLAS.
TEST(UnfusedModel, ExpectsWhatWasMeasured) {
  const auto product = [](const std::string& n, const std::string& k, int64_t m) {
    return problem_of("a: bf16[M, " + k + "], w: bf16[" + n + ", " + k + "]",
                      "return a @ transpose(w)", m);
  };
  EXPECT_NEAR(std::log(seconds(product("14336", "4096", 4096)) / 693e-6), 0, 0.15);
  EXPECT_NEAR(std::log(seconds(product("11008", "4096", 1024)) / 134e-6), 0, 0.15);
  EXPECT_NEAR(std::log(seconds(product("14336", "4096", 256)) / 43.8e-6), 0, 0.15);
  EXPECT_NEAR(std::log(seconds(product("14336", "4096", 16)) / 30.1e-6), 0, 0.15);
}

// The library multiplies s8 by s8 alone of bytes, and stores no f16 from bf16.
TEST(UnfusedModel, KnowsWhatTheLibraryDoesNotMultiply) {
  const auto of = [](const std::string& a, const std::string& b, const std::string& stored) {
    return seconds(problem_of("a: " + a + "[M, 4096], w: " + b + "[4096, 4096]",
                              "return matmul(a, transpose(w), out=" + stored + ")", 4096));
  };
  const double bytes = of("s8", "s8", "s32"), halves = of("bf16", "bf16", "bf16");
  for (const char* a : {"u8", "s8"}) {
    EXPECT_GT(of(a, "u8", "s32"), 50 * bytes) << a;
    EXPECT_GT(of("u8", a, "s32"), 50 * bytes) << a;
  }
  EXPECT_GT(of("bf16", "bf16", "f16"), 20 * halves);
  EXPECT_GT(of("f16", "f16", "bf16"), 20 * halves);
  EXPECT_GT(of("f32", "f32", "f32"), 10 * halves);
  // Converted to 16 bits.
  EXPECT_GT(of("f8e5m2", "f8e5m2", "bf16"), 1.2 * of("f8e4m3", "f8e5m2", "bf16"));
  const problem::Problem eighths =
      problem_of("a: f8e4m3[M, 256], w: f8e4m3[512, 256]", "return a @ transpose(w)");
  for (const char* device : {"a100", "l40s", "h200"})
    EXPECT_TRUE(
        std::isfinite(estimated_unfused(eighths, *gpu::known_device(device)).front().seconds))
        << device;
}

TEST(UnfusedModel, CountsTheLaunchesOfAxesThatDoNotMerge) {
  const auto of = [](int64_t batch) {
    return seconds(problem_of("q: bf16[" + std::to_string(batch) + ", 64, 8, 64], k: bf16[" +
                                  std::to_string(batch) + ", 64, 8, 64]",
                              "return permute(q, [0, 2, 1, 3]) @ permute(k, [0, 2, 3, 1])"));
  };
  EXPECT_NEAR(of(8) / of(1), 8, 0.5);
}

TEST(UnfusedModel, IsTakenWhereItWinsByMoreThanTheMargin) {
  const gpu::DeviceInfo device = *gpu::known_device("h200");
  launch::Candidates fused;
  const Estimated unfused{{}, 10e-6, 0.1};
  EXPECT_TRUE(prefers_unfused(fused, unfused, device));
  fused.ranked.push_back({.kind = launch::CandidateKind::Fused, .kernel = "t"});
  fused.expected = {10e-6 * std::exp(-0.09)};
  EXPECT_TRUE(prefers_unfused(fused, unfused, device));
  // Nothing was learned of such devices.
  EXPECT_FALSE(prefers_unfused(fused, unfused, *gpu::known_device("a100")));
  fused.expected = {21e-6};
  EXPECT_TRUE(prefers_unfused(fused, unfused, *gpu::known_device("a100")));
  fused.expected = {10e-6 * std::exp(-0.11)};
  EXPECT_FALSE(prefers_unfused(fused, unfused, device));
}

TEST(UnfusedModel, DeniesAGainWhereNoErrorOfATemplatesTimeExplainsIt) {
  const gpu::DeviceInfo device = *gpu::known_device("h200");
  const std::string inputs = "a: bf16[M, 4096], w: bf16[4096, 4096], b: bf16[4096]";
  const problem::Problem bare = problem_of(inputs, "return a @ transpose(w)", 64);
  const problem::Problem tail = problem_of(inputs, "return relu(a @ transpose(w) + b)", 64);
  const auto gain = [&](const problem::Problem& problem, double seconds,
                        const gpu::DeviceInfo& on) {
    launch::Candidates fused{.ranked = {{.kind = launch::CandidateKind::Fused, .kernel = "t"}},
                             .expected = {seconds},
                             .excluded = {}};
    return may_gain(problem, fused, {{}, 10e-6}, on);
  };
  EXPECT_TRUE(gain(tail, 11.2e-6, device));
  EXPECT_FALSE(gain(tail, 11.3e-6, device));
  EXPECT_TRUE(gain(bare, 9.6e-6, device));
  EXPECT_FALSE(gain(bare, 9.8e-6, device));
  EXPECT_TRUE(gain(tail, 99e-6, *gpu::known_device("a100")));
  EXPECT_TRUE(may_gain(tail, {}, {{}, 10e-6}, device));  // nothing fuses: nothing is timed anyway
}

}  // namespace
}  // namespace attacca::tune
