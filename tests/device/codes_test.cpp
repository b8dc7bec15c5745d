// Every template that reads weights in codes of integers, and some before which a kernel decodes
// them, on groups of many sizes, in both modes, with epilogues of every kind of operand, on rows as
// they lie and on rows that an index names: right, or refused with a reason; the same bits every
// time. Every code with every zero point.
#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "ir/text/text.hpp"
#include "support/check.hpp"

namespace attacca::testing {
namespace {

struct Shape {
  int rows, n, k, groups;
};
constexpr Shape kShapes[] = {{1, 64, 64, 4},      {7, 208, 384, 3},   {16, 144, 1152, 40},
                             {33, 528, 640, 8},   {130, 80, 512, 5},  {300, 272, 256, 2},
                             {515, 144, 128, 33}, {700, 528, 192, 1}, {64, 1040, 2944, 32}};

// How weights are decoded: with one scale for so many values of k; 0: for a column.
struct Codes {
  int bits, block;
  const char *codes, *dtype, *rest;  // rest: of the call
  bool zeros;
};
constexpr Codes kCodes[] = {{4, 32, "u8", "bf16", ", zero=8", false},
                            {4, 64, "u8", "f16", "", true},
                            {8, 128, "u8", "bf16", "", true},
                            {4, 0, "s8", "bf16", "", false},
                            {8, 32, "s8", "f16", "", false},
                            {4, 128, "u8", "bf16", "", true},
                            {8, 0, "u8", "bf16", ", zero=128", false},
                            {4, 32, "u8", "f16", ", zero=7", false},
                            {8, 64, "u8", "f16", "", true},
                            {4, 32, "s8", "bf16", "", false},
                            {4, 64, "u8", "bf16", "", true}};

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
        shape.k * codes.bits / 8, shape.k / block, codes.codes, codes.dtype,
        codes.zeros ? fmt::format(", {}z: u8[{}, {}, {}]", name, shape.groups, n, shape.k / block)
                    : "");
  };
  const auto product = [&](const char* result, const char* name) {
    return fmt::format(
        "  {0} = grouped_matmul({1}, transpose(decode({2}, {2}s{3}, bits={4}{5}, dtype={6})), o)\n",
        result, named ? "a" : "x", name, codes.zeros ? fmt::format(", {}z", name) : "", codes.bits,
        codes.rest, codes.dtype);
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

std::vector<Prepared> make_cases(ir::Mode mode, bool named) {
  constexpr size_t kCount = 126;  // every shape and tail meet twice
  std::vector<Prepared> prepared(kCount);
  in_parallel(kCount, [&](int i) {
    const auto index = static_cast<size_t>(i);
    const Shape& shape = kShapes[index % std::size(kShapes)];
    const auto seed = static_cast<uint32_t>(index + 1);
    ir::Bindings given{
        {"o", random_ends(shape.rows, shape.groups, static_cast<uint32_t>(index / 9 % 4), seed)}};
    const Codes& codes = kCodes[index % std::size(kCodes)];
    prepared[index] = prepare_text(text_of(shape, codes, kTails[index % std::size(kTails)], named),
                                   std::move(given), seed, mode);
    ATTACCA_CHECK(has_codes(prepared[index].each->problem), "no weights in codes");
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

std::vector<std::string> codes_templates(bool gathered) {
  std::vector<std::string> names = {"grouped_tn_16x64_1x1_swap_f1_d16"};
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.code_bits > 0 && !each.code_floats && each.gathered == gathered)
      names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

class Codes4And8 : public ::testing::TestWithParam<std::string> {};
class CodesOfNamedRows : public ::testing::TestWithParam<std::string> {};

TEST_P(Codes4And8, ComputeEveryCaseRightOrRefuseIt) {
  run_all(GetParam(), cases(ir::Mode::Fp32), 0x1p-7);
}
TEST_P(Codes4And8, ComputeEveryCaseOfEagerModeRightOrRefuseIt) {
  run_all(GetParam(), cases(ir::Mode::Eager), 0x1p-7);
}
TEST_P(CodesOfNamedRows, ComputeEveryCaseRightOrRefuseIt) {
  run_all(GetParam(), named_cases(), 0x1p-7);
}

INSTANTIATE_TEST_SUITE_P(Gpu, Codes4And8, ::testing::ValuesIn(codes_templates(false)),
                         template_test_name);
INSTANTIATE_TEST_SUITE_P(Gpu, CodesOfNamedRows, ::testing::ValuesIn(codes_templates(true)),
                         template_test_name);

TEST(CodesRuns, GiveTheSameBitsEveryTime) {
  EXPECT_GT(expect_same_bits(cases(ir::Mode::Fp32), codes_templates(false), 64), 0);
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
    for (const std::string& kernel : codes_templates(false)) {
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

}  // namespace
}  // namespace attacca::testing
