// Every template that reads weights in codes, integers or MXFP4, and some before which a kernel
// decodes them, on groups of many sizes, in both modes, with epilogues of every kind of operand, on
// rows as they lie and on rows that an index names: right, or refused with a reason; the same bits
// every time. Every code with every zero point, or scale.
#include <cmath>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <span>
#include <tuple>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "ir/interpret/mxfp4.hpp"
#include "ir/text/text.hpp"
#include "support/check.hpp"

namespace attacca::testing {
namespace {

struct Shape {
  int rows, n, k, groups;
};

// How weights are decoded: with one scale for so many values of k; 0: for a column.
struct Codes {
  int bits, block;
  const char *codes, *scales, *dtype, *rest;  // rest: of the call, or nullptr: it is mxfp4's
  bool zeros;
};

// What a family of templates computes: the cases are rows of the lists in turn.
struct Family {
  const char* name;
  size_t cases;
  std::span<const Shape> shapes;
  std::span<const Codes> codes;
  bool (*reads)(const templates::Template&);
};

constexpr Shape kIntegerShapes[] = {{1, 64, 64, 4},      {7, 208, 384, 3},   {16, 144, 1152, 40},
                                    {33, 528, 640, 8},   {130, 80, 512, 5},  {300, 272, 256, 2},
                                    {515, 144, 128, 33}, {700, 528, 192, 1}, {64, 1040, 2944, 32}};
constexpr Codes kIntegerCodes[] = {{4, 32, "u8", "bf16", "bf16", ", zero=8", false},
                                   {4, 64, "u8", "f16", "f16", "", true},
                                   {8, 128, "u8", "bf16", "bf16", "", true},
                                   {4, 0, "s8", "bf16", "bf16", "", false},
                                   {8, 32, "s8", "f16", "f16", "", false},
                                   {4, 128, "u8", "bf16", "bf16", "", true},
                                   {8, 0, "u8", "bf16", "bf16", ", zero=128", false},
                                   {4, 32, "u8", "f16", "f16", ", zero=7", false},
                                   {8, 64, "u8", "f16", "f16", "", true},
                                   {4, 32, "s8", "bf16", "bf16", "", false},
                                   {4, 64, "u8", "bf16", "bf16", "", true}};
constexpr Shape kMxFp4Shapes[] = {{1, 64, 64, 4},     {7, 208, 352, 3},   {16, 144, 1120, 40},
                                  {33, 528, 640, 8},  {130, 80, 512, 5},  {300, 272, 224, 2},
                                  {515, 144, 64, 33}, {700, 528, 192, 1}, {64, 1040, 2880, 32}};
constexpr Codes kMxFp4Codes[] = {{4, 32, "u8", "u8", "bf16", nullptr, false}};

const Family kIntegers = {
    "integers", 126, kIntegerShapes, kIntegerCodes,
    [](const templates::Template& each) { return each.code_bits > 0 && !each.code_floats; }};
const Family kMxFp4 = {"mxfp4", 63, kMxFp4Shapes, kMxFp4Codes,
                       [](const templates::Template& each) { return each.code_floats; }};

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

std::string text_of(const Shape& shape, const Codes& codes, std::string tail, bool named) {
  const int block = codes.block == 0 || shape.k % codes.block != 0 ? shape.k : codes.block;
  for (size_t at; (at = tail.find("{n}")) != std::string::npos;)
    tail.replace(at, 3, std::to_string(shape.n));
  const auto weight = [&](const char* name, int n) {
    return fmt::format(
        ", {0}: {5}[{1}, {2}, {3}], {0}s: {6}[{1}, {2}, {4}]{7}", name, shape.groups, n,
        shape.k * codes.bits / 8, shape.k / block, codes.codes, codes.scales,
        codes.zeros ? fmt::format(", {}z: u8[{}, {}, {}]", name, shape.groups, n, shape.k / block)
                    : "");
  };
  const auto decoded = [&](const char* name) {
    if (codes.rest == nullptr) return fmt::format("mxfp4({0}, {0}s)", name);
    return fmt::format("decode({0}, {0}s{1}, bits={2}{3}, dtype={4})", name,
                       codes.zeros ? fmt::format(", {}z", name) : "", codes.bits, codes.rest,
                       codes.dtype);
  };
  const auto product = [&](const char* result, const char* name) {
    return fmt::format("  {} = grouped_matmul({}, transpose({}), o)\n", result, named ? "a" : "x",
                       decoded(name));
  };
  const bool halves = tail.find('h') != std::string::npos;
  const bool two = tail.find('z') != std::string::npos;
  const std::string weights =
      halves ? weight("w", 2 * shape.n) : weight("w", shape.n) + (two ? weight("v", shape.n) : "");
  const std::string products =
      halves ? product("h", "w") : product("y", "w") + (two ? product("z", "v") : "");
  return fmt::format(
      "graph g(x: {10}[{0}, {1}]{2}, o: s32[{3}], b: {10}[{4}], r: {10}[{5}, {4}], "
      "t: {10}[{5}, 1]{6}) {{\n{7}{8}  return {9}\n}}\n",
      named ? shape.rows / 2 + 3 : shape.rows, shape.k, weights, shape.groups, shape.n, shape.rows,
      named ? fmt::format(", i: s32[{}]", shape.rows) : "", named ? "  a = gather(x, i)\n" : "",
      products, tail, codes.dtype);
}

std::vector<Prepared> make_cases(const Family& family, ir::Mode mode, bool named) {
  std::vector<Prepared> prepared(family.cases);
  in_parallel(static_cast<int>(family.cases), [&](int i) {
    const auto index = static_cast<size_t>(i);
    const Shape& shape = family.shapes[index % family.shapes.size()];
    const Codes& codes = family.codes[index % family.codes.size()];
    const auto seed = static_cast<uint32_t>(index + 1);
    ir::Bindings given{
        {"o", random_ends(shape.rows, shape.groups, static_cast<uint32_t>(index / 9 % 4), seed)}};
    prepared[index] = prepare_text(text_of(shape, codes, kTails[index % std::size(kTails)], named),
                                   std::move(given), seed, mode);
    ATTACCA_CHECK(has_codes(prepared[index].each->problem), "no weights in codes");
  });
  return prepared;
}

// Made once, by the first test that runs them.
const std::vector<Prepared>& cases(const Family& family, ir::Mode mode, bool named = false) {
  static std::map<std::tuple<const Family*, ir::Mode, bool>, std::vector<Prepared>> made;
  auto [slot, fresh] = made.try_emplace({&family, mode, named});
  if (fresh) slot->second = make_cases(family, mode, named);
  return slot->second;
}

std::vector<std::string> templates_of(const Family& family, bool gathered = false) {
  std::vector<std::string> names = {"grouped_tn_16x64_1x1_swap_f1_d16"};
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (family.reads(each) && each.gathered == gathered) names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

using Tested = std::tuple<const Family*, std::string>;
class WeightsInCodes : public ::testing::TestWithParam<Tested> {};
class CodesOfNamedRows : public ::testing::TestWithParam<Tested> {};

TEST_P(WeightsInCodes, ComputeEveryCaseRightOrRefuseIt) {
  const auto& [family, kernel] = GetParam();
  run_all(kernel, cases(*family, ir::Mode::Fp32), 0x1p-7);
}
TEST_P(WeightsInCodes, ComputeEveryCaseOfEagerModeRightOrRefuseIt) {
  const auto& [family, kernel] = GetParam();
  run_all(kernel, cases(*family, ir::Mode::Eager), 0x1p-7);
}
TEST_P(CodesOfNamedRows, ComputeEveryCaseRightOrRefuseIt) {
  const auto& [family, kernel] = GetParam();
  run_all(kernel, cases(*family, ir::Mode::Fp32, true), 0x1p-7);
}

auto tests_of(bool gathered) {
  std::vector<Tested> all;
  for (const Family* family : {&kIntegers, &kMxFp4})
    for (std::string& kernel : templates_of(*family, gathered))
      all.emplace_back(family, std::move(kernel));
  return ::testing::ValuesIn(all);
}
std::string tested_name(const ::testing::TestParamInfo<Tested>& info) {
  const auto& [family, kernel] = info.param;
  return fmt::format("{}_{}", family->name, template_test_name({kernel, info.index}));
}
INSTANTIATE_TEST_SUITE_P(Gpu, WeightsInCodes, tests_of(false), tested_name);
INSTANTIATE_TEST_SUITE_P(Gpu, CodesOfNamedRows, tests_of(true), tested_name);

TEST(CodesRuns, GiveTheSameBitsEveryTime) {
  for (const Family* family : {&kIntegers, &kMxFp4})
    EXPECT_GT(expect_same_bits(cases(*family, ir::Mode::Fp32), templates_of(*family), 64), 0)
        << family->name;
}

// Column n has code and zero point of its own at one value of k, which alone meets a 1.
TEST(CodesValues, EveryCodeAndZeroPoint) {
  constexpr int kN = 4096, kK = 64;
  int ran = 0;
  for (const auto& [bits, dtype] : {std::pair(4, ir::DType::BF16), std::pair(4, ir::DType::F16),
                                    std::pair(8, ir::DType::BF16), std::pair(8, ir::DType::F16)}) {
    const auto graph = ir::parse_graph(fmt::format(
        "graph g(x: {0}[1, 64], c: u8[1, 4096, {1}], s: {0}[1, 4096, 2], z: u8[1, 4096, 2], "
        "o: s32[1]) {{\n"
        "  w = decode(c, s, z, bits={2}, dtype={0})\n"
        "  return y = grouped_matmul(x, transpose(w), o, out=f32)\n}}",
        name(dtype), kK * bits / 8, bits));
    ASSERT_TRUE(graph);
    ir::Tensor x = *ir::Tensor::make(dtype, {1, kK}), ends = *ir::Tensor::make(ir::DType::S32, {1});
    ir::Tensor codes = *ir::Tensor::make(ir::DType::U8, {1, kN, kK * bits / 8});
    ir::Tensor scales = *ir::Tensor::make(dtype, {1, kN, 2});
    ir::Tensor zeros = *ir::Tensor::make(ir::DType::U8, {1, kN, 2});
    constexpr int kPlace = 37;
    for (int i = 0; i < kK; ++i) x.set_number(i, i == kPlace);
    ends.set_integer(0, 1);
    std::mt19937_64 random(7);
    for (int64_t i = 0; i < codes.size(); ++i)
      codes.set_integer(i, static_cast<int64_t>(random() % 256));
    for (int64_t i = 0; i < zeros.size(); ++i) {
      zeros.set_integer(i, i / 2 % 256);
      scales.set_number(i, std::ldexp(1.0 + static_cast<double>(random() % 1000) / 1000,
                                      static_cast<int>(random() % 12) - 9));
    }
    const auto each = make_case(*graph, {}, ir::Mode::Fp32,
                                {{"x", x}, {"c", codes}, {"s", scales}, {"z", zeros}, {"o", ends}});
    ASSERT_TRUE(each) << to_string(each.error());
    for (const std::string& kernel : templates_of(kIntegers)) {
      if (is_refused(*each, kernel)) continue;
      const auto got = run_candidate(*each, candidate_of(kernel));
      ASSERT_TRUE(got) << to_string(got.error());
      for (int n = 0; n < kN; ++n) {
        const int64_t at = int64_t{n} * kK + kPlace, block = int64_t{n} * 2 + kPlace / 32;
        const int64_t byte = codes.integer_at(at * bits / 8);
        const int64_t code = bits == 8 ? byte : byte >> (4 * (at % 2)) & 15;
        const auto value = static_cast<float>(static_cast<double>(code - zeros.integer_at(block)) *
                                              scales.number_at(block));
        const float weight = ir::decode16(dtype, ir::encode16(dtype, value));
        ASSERT_EQ(got->at(0).number_at(n), weight)
            << kernel << ": code " << code << " less " << zeros.integer_at(block) << " times "
            << scales.number_at(block);
      }
      ++ran;
    }
  }
  EXPECT_GT(ran, 4);
}

// Column 16 * scale + code has this code once, in any place, and codes of 0; the row of A is ones.
TEST(CodesValues, EveryCodeAndScale) {
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
  for (const std::string& kernel : templates_of(kMxFp4)) {
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
