// Every template for packed weights on every kind of codes, group and epilogue: right, or refused
// with a reason; scales that are extreme; the same bits every time.
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "ir/packed/packed.hpp"
#include "ir/text/text.hpp"
#include "launch/candidate.hpp"
#include "run/check/random_inputs.hpp"
#include "support/check.hpp"

namespace attacca::testing {
namespace {

using launch::Candidate;
using launch::CandidateKind;

constexpr Extents kShapes[] = {{1, 64, 64},    {3, 200, 328},   {8, 1024, 512},  {16, 136, 1096},
                               {17, 72, 2048}, {5, 264, 4104},  {2, 8, 128},     {33, 520, 640},
                               {64, 200, 192}, {1, 1032, 3000}, {129, 136, 256}, {300, 520, 1096},
                               {257, 392, 320}};

// y: the product. {0}: A's dtype.
constexpr const char* kEpilogues[] = {
    "y", "silu(y + b)", "gelu(y) * r", "cast(relu(y), f32)", "silu(y + b) * r + r", "y * t + b"};

ir::Packing packing_of(size_t index, ir::DType a) {
  const ir::Packing kinds[] = {{ir::DType::S8, 4},
                               {ir::DType::U8, 4},
                               {ir::DType::S8, 8},
                               {ir::DType::U8, 8},
                               {ir::DType::F8E4M3, 8}};
  constexpr int64_t kGroups[] = {64, 128, 0};
  ir::Packing packing = kinds[index % std::size(kinds)];
  packing.group = kGroups[index / 5 % 3];
  packing.zeros = packing.weights != ir::DType::F8E4M3 && index / 15 % 2 == 1;
  packing.scales = index % 3 == 2 ? ir::DType::F32 : a;
  return packing;
}

std::string graph_text(const Extents& extents, const ir::Packing& packing, ir::DType a,
                       const std::string& epilogue) {
  const auto layout = ir::packed_layout(packing, extents.n, extents.k);
  ATTACCA_CHECK(layout.has_value(), "no layout");
  return fmt::format(
      "graph mixed(a: {0}[{1}, {3}], w: u8[{4}], b: {0}[{2}], r: {0}[{1}, {2}], t: {0}[{1}, 1]) "
      "{{\n  y = a @ transpose(unpack(w, [{2}, {3}], {5}, dtype={0}))\n  return {6}\n}}\n",
      name(a), extents.m, extents.n, extents.k, layout->bytes, to_string(packing), epilogue);
}

Prepared prepare_packed(const std::string& text, ir::Bindings given, uint64_t seed,
                        ir::Mode mode = ir::Mode::Fp32) {
  Prepared prepared = prepare_text(text, std::move(given), seed, mode);
  ATTACCA_CHECK(prepared.each->problem.products[0].packed.has_value(), text + "no packed product");
  return prepared;
}

std::vector<Prepared> make_cases(ir::Mode mode) {
  constexpr size_t kCount = 120;
  std::vector<Prepared> prepared(kCount);
  in_parallel(kCount, [&](int i) {
    const auto index = static_cast<size_t>(i);
    const ir::DType a = index / 2 % 2 == 0 ? ir::DType::BF16 : ir::DType::F16;
    prepared[index] =
        prepare_packed(graph_text(kShapes[index % std::size(kShapes)], packing_of(index, a), a,
                                  kEpilogues[index / 7 % std::size(kEpilogues)]),
                       {}, index + 1, mode);
  });
  return prepared;
}
const std::vector<Prepared>& cases() {
  static const std::vector<Prepared> made = make_cases(ir::Mode::Fp32);
  return made;
}
const std::vector<Prepared>& eager_cases() {
  static const std::vector<Prepared> made = make_cases(ir::Mode::Eager);
  return made;
}

std::vector<std::string> rounding_templates() {
  std::vector<std::string> names;
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.packed_rounds && each.packed_scale_bits != 8) names.push_back(each.name);
  return names;
}

std::vector<std::string> mixed_templates() {
  std::vector<std::string> names;
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.packed_bits > 0 && each.packed_scale_bits != 8) names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

class Mixed : public ::testing::TestWithParam<std::string> {};

TEST_P(Mixed, ComputeEveryCaseRightOrRefuseIt) {
  run_all(GetParam(), cases(), 0x1p-7);
}

INSTANTIATE_TEST_SUITE_P(Gpu, Mixed, ::testing::ValuesIn(mixed_templates()), template_test_name);

// Those that round each weight as the graph does.
class MixedEager : public ::testing::TestWithParam<std::string> {};

TEST_P(MixedEager, ComputeEveryCaseRightOrRefuseIt) {
  run_all(GetParam(), eager_cases(), 0);
}

INSTANTIATE_TEST_SUITE_P(Gpu, MixedEager, ::testing::ValuesIn(rounding_templates()),
                         template_test_name);

// 4-bit weights with scales of u8, times s8: sums are exact.
std::vector<Prepared> make_whole_cases() {
  constexpr const char* kTails[] = {"y", "cast(y, f32) * t * c", "cast(silu(z) + r, bf16)",
                                    "cast(round(z), s8, saturate=true)", "cast(z, f16)"};
  constexpr int64_t kGroups[] = {128, 256, 0};
  constexpr size_t kCount = 90;
  std::vector<Prepared> prepared(kCount);
  in_parallel(kCount, [&](int i) {
    const auto index = static_cast<size_t>(i);
    const Extents& shape = kShapes[index % std::size(kShapes)];
    const ir::Packing packing{index % 2 == 0 ? ir::DType::S8 : ir::DType::U8, 4,
                              kGroups[index / 2 % 3], ir::DType::U8, index / 6 % 2 == 1};
    const auto layout = ir::packed_layout(packing, shape.n, shape.k);
    ATTACCA_CHECK(layout.has_value(), "no layout");
    prepared[index] = prepare_packed(
        fmt::format("graph whole(a: s8[{0}, {2}], w: u8[{3}], t: f32[{0}, 1], c: f32[{1}], "
                    "r: bf16[{0}, {1}]) {{\n  y = a @ transpose(unpack(w, [{1}, {2}], {4}, "
                    "dtype=s8))\n  z = cast(y, f32) * t * c * 0.01\n  return {5}\n}}\n",
                    shape.m, shape.n, shape.k, layout->bytes, to_string(packing),
                    kTails[index / 3 % std::size(kTails)]),
        {}, index + 1, index % 7 == 0 ? ir::Mode::Eager : ir::Mode::Fp32);
  });
  return prepared;
}
const std::vector<Prepared>& whole_cases() {
  static const std::vector<Prepared> made = make_whole_cases();
  return made;
}

std::vector<std::string> whole_templates() {
  std::vector<std::string> names;
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.packed_scale_bits == 8) names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

class MixedWhole : public ::testing::TestWithParam<std::string> {};

TEST_P(MixedWhole, ComputeEveryCaseRightOrRefuseIt) {
  run_all(GetParam(), whole_cases(), 0);
}

INSTANTIATE_TEST_SUITE_P(Gpu, MixedWhole, ::testing::ValuesIn(whole_templates()),
                         template_test_name);

// More tiles than multiprocessors, so that the last tiles are shared; an odd number of steps of k,
// and one step.
TEST(MixedTail, SharesTheLastTiles) {
  std::vector<Prepared> prepared;
  for (const ir::DType a : {ir::DType::BF16, ir::DType::F16})
    for (const size_t kind : {0, 2})
      for (const int k : {320, 64}) {
        ir::Packing packing = packing_of(kind, a);
        packing.scales = a;
        prepared.push_back(
            prepare_packed(graph_text({300, 8584, k}, packing, a, "silu(y + b)"), {}, 3));
      }
  int run = 0;
  for (const templates::Template& each : toolbox()->catalog().templates()) {
    if (each.schedule != templates::Schedule::SharedTail || each.widened) continue;
    run_all(each.name, prepared, 0x1p-7);
    ++run;
  }
  EXPECT_GT(run, 0);
}

std::vector<Candidate> every_candidate(const Prepared& prepared) {
  std::vector<Candidate> all = {Candidate{}};
  for (const std::string& kernel : mixed_templates())
    if (!kernel.empty() && !is_refused(*prepared.each, kernel))
      all.push_back({.kind = CandidateKind::Fused, .kernel = kernel});
  return all;
}

// Rows with scales that are NaN, 0, tiny or huge next to ordinary ones; all codes equal, all zero.
TEST(MixedScales, OfEveryKindStayInTheirColumns) {
  std::mt19937_64 random(5);
  for (const ir::DType a : {ir::DType::BF16, ir::DType::F16})
    for (const int bits : {4, 8}) {
      const ir::Packing packing{ir::DType::S8, bits, 64, a, false};
      const Extents extents{9, 136, 320};
      ir::Quantized from = *ir::unpack([&] {
        static ir::Tensor packed;
        packed = *run::random_packed(*ir::packed_layout(packing, extents.n, extents.k), random);
        return std::span<const std::byte>(packed.data(), static_cast<size_t>(packed.bytes()));
      }());
      const double large = a == ir::DType::BF16 ? 1e30 : 100,
                   small = a == ir::DType::BF16 ? 1e-36 : 6e-8;
      const double kinds[] = {
          std::numeric_limits<double>::quiet_NaN(), 0, large, -large, small, -1};
      for (size_t i = 0; i < std::size(kinds); ++i)
        from.scales.set_number(static_cast<int64_t>(i) * 20 * 5 + static_cast<int64_t>(i) % 5,
                               kinds[i]);
      auto* codes = from.weights.as<uint8_t>();
      const int64_t row = from.weights.shape()[1];
      std::fill(codes + 7 * row, codes + 8 * row, uint8_t{0});
      std::fill(codes + 8 * row, codes + 9 * row, uint8_t{0x77});
      std::fill(codes + 9 * row, codes + 10 * row, uint8_t{0x88});
      const Prepared prepared = prepare_packed(graph_text(extents, packing, a, "cast(y, f32)"),
                                               {{"w", *ir::pack(from, packing)}}, 3);
      for (const Candidate& candidate : every_candidate(prepared)) {
        const auto outputs = run_candidate(*prepared.each, candidate);
        ASSERT_TRUE(outputs) << to_string(outputs.error());
        // A term that is rounded before it is summed has an error relative to the largest terms.
        std::vector<double> largest(static_cast<size_t>(extents.n), 0);
        for (int64_t i = 0; i < extents.m * extents.n; ++i) {
          double& of_column = largest[static_cast<size_t>(i % extents.n)];
          of_column = std::fmax(of_column, std::fabs(prepared.reference.exact[0].number_at(i)));
        }
        for (int64_t m = 0; m < extents.m; ++m)
          for (int64_t n = 0; n < extents.n; ++n) {
            const double want = prepared.reference.exact[0].number_at(m * extents.n + n);
            const double got = (*outputs)[0].number_at(m * extents.n + n);
            if (std::isnan(want)) {
              EXPECT_TRUE(std::isnan(got)) << to_string(candidate) << " " << m << ", " << n;
            } else {
              // The product is rounded to A's dtype where it is unfused; beyond its range, to
              // infinity.
              const double bound =
                  largest[static_cast<size_t>(n)] * 0x1p-6 + 0.02 + std::fabs(small) * 1e4;
              const bool beyond = std::isinf(got) && std::fabs(want) > 6e4;
              EXPECT_TRUE(beyond || std::fabs(got - want) <= bound)
                  << to_string(candidate) << " " << m << ", " << n << ": " << got << " " << want;
            }
          }
      }
    }
}

TEST(MixedRuns, GiveTheSameBitsEveryTime) {
  const ir::Packing packing{ir::DType::S8, 4, 128, ir::DType::BF16, true};
  const Prepared prepared = prepare_packed(
      graph_text({16, 1032, 4096}, packing, ir::DType::BF16, "cast(silu(y + b), f32)"), {}, 11);
  for (const Candidate& candidate : every_candidate(prepared)) {
    const auto first = run_candidate(*prepared.each, candidate);
    ASSERT_TRUE(first) << to_string(first.error());
    for (int i = 0; i < 5; ++i) {
      const auto again = run_candidate(*prepared.each, candidate);
      ASSERT_TRUE(again);
      EXPECT_EQ("", compare_bits(*again, *first)) << to_string(candidate);
    }
  }
}

}  // namespace
}  // namespace attacca::testing
