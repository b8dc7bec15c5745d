// Every template that widens weights of bytes, in both layouts and modes, on ragged sizes and with
// epilogues of every kind of operand: right, or refused with a reason; the same bits every time.
#include <gtest/gtest.h>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "ir/text/text.hpp"
#include "launch/candidate.hpp"
#include "run/check/random_inputs.hpp"
#include "support/check.hpp"

namespace attacca::testing {
namespace {

using launch::Candidate;
using launch::CandidateKind;

constexpr Extents kShapes[] = {{1, 64, 64},     {3, 208, 336},      {8, 1024, 512},
                               {16, 144, 1104}, {17, 80, 2048},     {5, 272, 4112},
                               {33, 528, 640},  {64, 208, 192},     {1, 1040, 3008},
                               {129, 144, 256}, {300, 528, 1104, 3}};

// y: the product. {0}: A's dtype.
constexpr const char* kWidenedTails[] = {
    "y",        "silu(y * b)", "gelu(y) * r", "cast(relu(y), f32)", "silu(y * b + b) * r + r",
    "y * t + b"};

std::string widened_text(size_t index) {
  const Extents& extents = kShapes[index % std::size(kShapes)];
  const char* dtype = index / 2 % 2 == 0 ? "bf16" : "f16";
  const char* bytes = index / 4 % 2 == 0 ? "s8" : "u8";
  const std::string batch = extents.batch > 1 ? fmt::format("{}, ", extents.batch) : "";
  const bool columns = index % 2 == 0 && extents.batch == 1;
  const auto [rows, row] =
      columns ? std::pair(extents.n, extents.k) : std::pair(extents.k, extents.n);
  return fmt::format(
      "graph widened(a: {0}[{6}{1}, {3}], w: {4}[{6}{7}, {8}], b: {0}[{2}], r: {0}[{1}, {2}], "
      "t: {0}[{1}, 1]) {{\n  y = a @ {5}(cast(w, {0}))\n  return {9}\n}}\n",
      dtype, extents.m, extents.n, extents.k, bytes, columns ? "transpose" : "", batch, rows, row,
      kWidenedTails[index / 3 % std::size(kWidenedTails)]);
}

Prepared prepare_widened(const std::string& text, uint64_t seed, ir::Mode mode) {
  Prepared prepared = prepare_text(text, {}, seed, mode);
  ATTACCA_CHECK(problem::is_widened(prepared.each->problem.views.products[0]), text + "no bytes");
  return prepared;
}

std::vector<Prepared> make_widened(ir::Mode mode) {
  constexpr size_t kCount = 132;  // every shape, layout and pair of dtypes meets
  std::vector<Prepared> prepared(kCount);
  in_parallel(kCount, [&](int i) {
    const auto index = static_cast<size_t>(i);
    prepared[index] = prepare_widened(widened_text(index), index + 1, mode);
  });
  return prepared;
}
const std::vector<Prepared>& widened_cases(ir::Mode mode) {
  static const std::vector<Prepared> fp32 = make_widened(ir::Mode::Fp32);
  static const std::vector<Prepared> eager = make_widened(ir::Mode::Eager);
  return mode == ir::Mode::Eager ? eager : fp32;
}

std::vector<std::string> widening_templates() {
  std::vector<std::string> names;
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.widened) names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

class Widened : public ::testing::TestWithParam<std::string> {};

TEST_P(Widened, ComputeEveryCaseRightOrRefuseIt) {
  run_all(GetParam(), widened_cases(ir::Mode::Fp32), 0x1p-7);
}
TEST_P(Widened, ComputeEveryCaseOfEagerModeRightOrRefuseIt) {
  run_all(GetParam(), widened_cases(ir::Mode::Eager), 0x1p-7);
}

INSTANTIATE_TEST_SUITE_P(Gpu, Widened, ::testing::ValuesIn(widening_templates()),
                         template_test_name);

// More tiles than multiprocessors, so that the last tiles are shared; an odd number of steps of k,
// and one step.
TEST(WidenedTail, SharesTheLastTiles) {
  std::vector<Prepared> prepared;
  for (const auto& [dtype, bytes] : {std::pair{"bf16", "s8"}, {"f16", "u8"}})
    for (const int k : {320, 64})
      prepared.push_back(prepare_widened(
          fmt::format("graph widened(a: {0}[300, {2}], w: {1}[8584, {2}], b: {0}[8584]) {{\n"
                      "  return silu(a @ transpose(cast(w, {0})) + b)\n}}\n",
                      dtype, bytes, k),
          3, ir::Mode::Fp32));
  int run = 0;
  for (const templates::Template& each : toolbox()->catalog().templates()) {
    if (each.schedule != templates::Schedule::SharedTail || !each.widened) continue;
    run_all(each.name, prepared, 0x1p-7);
    ++run;
  }
  EXPECT_GT(run, 0);
}

TEST(WidenedRuns, GiveTheSameBitsEveryTime) {
  for (const char* weights : {"w: s8[1040, 4096]", "w: u8[4096, 1040]"}) {
    const bool columns = weights[3] == 's';
    const Prepared prepared =
        prepare_widened(fmt::format("graph widened(a: bf16[16, 4096], {}, b: bf16[1040]) {{\n"
                                    "  return cast(silu(a @ {}(cast(w, bf16)) * b), f32)\n}}\n",
                                    weights, columns ? "transpose" : ""),
                        11, ir::Mode::Fp32);
    for (const std::string& kernel : widening_templates()) {
      if (kernel.empty() || is_refused(*prepared.each, kernel)) continue;
      const Candidate candidate{.kind = CandidateKind::Fused, .kernel = kernel};
      const auto first = run_candidate(*prepared.each, candidate);
      ASSERT_TRUE(first) << to_string(first.error());
      for (int i = 0; i < 5; ++i) {
        const auto again = run_candidate(*prepared.each, candidate);
        ASSERT_TRUE(again);
        EXPECT_EQ("", compare_bits(*again, *first)) << kernel;
      }
    }
  }
}

}  // namespace
}  // namespace attacca::testing
