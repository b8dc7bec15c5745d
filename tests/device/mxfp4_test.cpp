// Every template that reads weights in MXFP4, and some before which a kernel widens them, on groups
// of many sizes, in both modes, with epilogues of every kind of operand, on rows as they lie and on
// rows that an index names: right, or refused with a reason; the same bits every time. Every code
// with every scale.
#include "ir/interpret/mxfp4.hpp"

#include <cmath>
#include <gtest/gtest.h>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "ir/text/text.hpp"
#include "support/check.hpp"

namespace attacca::testing {
namespace {

struct Shape {
  int rows, n, k, groups;
};
constexpr Shape kShapes[] = {{1, 64, 64, 4},     {7, 208, 352, 3},   {16, 144, 1120, 40},
                             {33, 528, 640, 8},  {130, 80, 512, 5},  {300, 272, 224, 2},
                             {515, 144, 64, 33}, {700, 528, 192, 1}, {64, 1040, 2880, 32}};

// y: the product; z: another one; h: one with twice the columns. b: a row, r: full, t: a column.
constexpr const char* kTails[] = {
    "y",
    "silu(y * b) * t",
    "y * t + r",
    "cast(gelu(y) + r, f32)",
    "silu(y) * z",
    "silu(h[:, :{n}]) * h[:, {n}:]",
    "silu(h[:, ::2]) * (h[:, 1::2] + b) * t",
};

std::string text_of(const Shape& shape, std::string tail, bool named) {
  for (size_t at; (at = tail.find("{n}")) != std::string::npos;)
    tail.replace(at, 3, std::to_string(shape.n));
  const auto weight = [&](const char* name, int n) {
    return fmt::format(", {0}: u8[{1}, {2}, {3}], {0}s: u8[{1}, {2}, {4}]", name, shape.groups, n,
                       shape.k / 2, shape.k / 32);
  };
  const auto product = [&](const char* result, const char* name) {
    return fmt::format("  {0} = grouped_matmul({1}, transpose(mxfp4({2}, {2}s)), o)\n", result,
                       named ? "a" : "x", name);
  };
  const bool halves = tail.find('h') != std::string::npos;
  const bool two = tail.find('z') != std::string::npos;
  const std::string weights =
      halves ? weight("w", 2 * shape.n) : weight("w", shape.n) + (two ? weight("v", shape.n) : "");
  const std::string products =
      halves ? product("h", "w") : product("y", "w") + (two ? product("z", "v") : "");
  return fmt::format(
      "graph g(x: bf16[{0}, {1}]{2}, o: s32[{3}], b: bf16[{4}], r: bf16[{5}, {4}], "
      "t: bf16[{5}, 1]{6}) {{\n{7}{8}  return {9}\n}}\n",
      named ? shape.rows / 2 + 3 : shape.rows, shape.k, weights, shape.groups, shape.n, shape.rows,
      named ? fmt::format(", i: s32[{}]", shape.rows) : "", named ? "  a = gather(x, i)\n" : "",
      products, tail);
}

std::vector<Prepared> make_cases(ir::Mode mode, bool named) {
  constexpr size_t kCount = 63;  // every shape and tail meets
  std::vector<Prepared> prepared(kCount);
  in_parallel(kCount, [&](int i) {
    const auto index = static_cast<size_t>(i);
    const Shape& shape = kShapes[index % std::size(kShapes)];
    const auto seed = static_cast<uint32_t>(index + 1);
    ir::Bindings given{
        {"o", random_ends(shape.rows, shape.groups, static_cast<uint32_t>(index / 9 % 4), seed)}};
    prepared[index] = prepare_text(text_of(shape, kTails[index % std::size(kTails)], named),
                                   std::move(given), seed, mode);
    ATTACCA_CHECK(has_codes(prepared[index].each->problem), "no weights in MXFP4");
  });
  return prepared;
}
const std::vector<Prepared>& cases(ir::Mode mode) {
  static const std::vector<Prepared> fp32 = make_cases(ir::Mode::Fp32, false);
  static const std::vector<Prepared> eager = make_cases(ir::Mode::Eager, false);
  return mode == ir::Mode::Eager ? eager : fp32;
}
const std::vector<Prepared>& named_cases() {
  static const std::vector<Prepared> made = make_cases(ir::Mode::Fp32, true);
  return made;
}

std::vector<std::string> mxfp4_templates(bool gathered) {
  std::vector<std::string> names = {"grouped_tn_16x64_1x1_swap_f1_d16"};
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.code_floats && each.gathered == gathered) names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

class MxFp4 : public ::testing::TestWithParam<std::string> {};
class MxFp4OfNamedRows : public ::testing::TestWithParam<std::string> {};

TEST_P(MxFp4, ComputeEveryCaseRightOrRefuseIt) {
  run_all(GetParam(), cases(ir::Mode::Fp32), 0x1p-7);
}
TEST_P(MxFp4, ComputeEveryCaseOfEagerModeRightOrRefuseIt) {
  run_all(GetParam(), cases(ir::Mode::Eager), 0x1p-7);
}
TEST_P(MxFp4OfNamedRows, ComputeEveryCaseRightOrRefuseIt) {
  run_all(GetParam(), named_cases(), 0x1p-7);
}

INSTANTIATE_TEST_SUITE_P(Gpu, MxFp4, ::testing::ValuesIn(mxfp4_templates(false)),
                         template_test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, MxFp4OfNamedRows, ::testing::ValuesIn(mxfp4_templates(true)),
                         template_test_name);

TEST(MxFp4Runs, GiveTheSameBitsEveryTime) {
  EXPECT_GT(expect_same_bits(cases(ir::Mode::Fp32), mxfp4_templates(false), 64), 0);
}

// Column 16 * scale + code has this code once, in any place, and codes of 0; the row of A is ones.
TEST(MxFp4Values, EveryCodeAndScale) {
  constexpr int kN = 16 * 256, kK = 32;
  const auto graph = ir::parse_graph(
      "graph g(x: bf16[1, 32], c: u8[1, 4096, 16], s: u8[1, 4096, 1], o: s32[1]) {\n"
      "  return y = grouped_matmul(x, transpose(mxfp4(c, s)), o, out=f32)\n}");
  ASSERT_TRUE(graph);
  ir::Tensor x = *ir::Tensor::make(ir::DType::BF16, {1, kK});
  ir::Tensor codes = *ir::Tensor::make(ir::DType::U8, {1, kN, kK / 2});
  ir::Tensor scales = *ir::Tensor::make(ir::DType::U8, {1, kN, 1});
  ir::Tensor ends = *ir::Tensor::make(ir::DType::S32, {1});
  for (int i = 0; i < kK; ++i) x.set_number(i, 1);
  for (int64_t i = 0; i < codes.size(); ++i) codes.set_integer(i, 0);
  for (int n = 0; n < kN; ++n) {
    const int place = n * 7 % kK;
    codes.set_integer((int64_t{n} * kK + place) / 2, n % 16 << (place % 2 * 4));
    scales.set_integer(n, n / 16);
  }
  ends.set_integer(0, 1);
  const auto each =
      make_case(*graph, {}, ir::Mode::Fp32, {{"x", x}, {"c", codes}, {"s", scales}, {"o", ends}});
  ASSERT_TRUE(each) << to_string(each.error());
  int ran = 0;
  for (const std::string& kernel : mxfp4_templates(false)) {
    if (is_refused(*each, kernel)) continue;
    const auto got = run_candidate(*each, candidate_of(kernel));
    ASSERT_TRUE(got) << to_string(got.error());
    for (int n = 0; n < kN; ++n) {
      const auto weight = static_cast<float>(ir::mxfp4_value(n % 16, n / 16));
      const double value = got->at(0).number_at(n);
      ASSERT_TRUE(value == weight || (std::isnan(value) && std::isnan(weight)))
          << kernel << ": code " << n % 16 << " scale " << n / 16 << ": " << value << ", not "
          << weight;
    }
    ++ran;
  }
  EXPECT_GT(ran, 1);
}

}  // namespace
}  // namespace attacca::testing
