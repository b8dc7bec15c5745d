// Every grouped template, on groups of many sizes and ends of every kind, in both layouts and modes
// and with epilogues of every kind of operand: right, or refused with a reason; the same bits every
// time.
#include <gtest/gtest.h>
#include <random>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "launch/candidate.hpp"
#include "support/check.hpp"

namespace attacca::testing {
namespace {

using launch::Candidate;
using launch::CandidateKind;

struct GroupedShape {
  int rows, n, k, groups;
};
constexpr GroupedShape kGroupedShapes[] = {
    {1, 64, 64, 4},     {7, 208, 336, 3},   {16, 144, 1104, 40},
    {33, 528, 640, 8},  {130, 80, 512, 5},  {300, 272, 200, 2},
    {515, 144, 64, 33}, {700, 528, 192, 1}, {64, 1040, 320, 128}};

// y: the product; z: another one; h: one with twice the columns. b: a row, r: full, t: a column.
constexpr const char* kGroupedTails[] = {
    "y",
    "silu(y * b) * t",
    "y * t + r",
    "cast(gelu(y) + r, f32)",
    "silu(y) * z",
    "silu(h[:, :{n}]) * h[:, {n}:]",
    "silu(h[:, ::2]) * (h[:, 1::2] + b) * t",
    "cast(silu(y) * z, f32)",
};

// The products of bytes are f32 here, and so are b and t.
constexpr const char* kByteTails[] = {
    "y",
    "cast(y * t, bf16)",
    "cast(silu(y * b) * t, bf16)",
    "cast(silu(y * t) * (z * b), bf16)",
    "cast(silu(h[:, :{n}] * t) * (h[:, {n}:] * t), bf16)",
};

// Ends in any order and of any size, with empty groups, all rows in one, rows behind the last end,
// or groups alike.
ir::Tensor ends_of(const GroupedShape& shape, uint32_t kind, uint32_t seed) {
  std::mt19937 random(seed);
  ir::Tensor ends = *ir::Tensor::make(ir::DType::S32, {shape.groups});
  int64_t end = 0;
  for (int group = 0; group < shape.groups; ++group) {
    const auto any = static_cast<int64_t>(random() % static_cast<uint32_t>(shape.rows + 1));
    if (kind == 0) end = any + static_cast<int64_t>(random() % 200) - 100;
    if (kind == 1 && random() % 3 == 0) end += any / 3;
    if (kind == 2) end = group < shape.groups / 2 ? 0 : shape.rows;
    if (kind == 3) end = int64_t{shape.rows} * (group + 1) / shape.groups;
    ends.set_integer(group, end);
  }
  return ends;
}

// What is multiplied, and what the tail reads.
struct Element {
  std::string factors, operands;
  bool transposed, fast = false;
  bool is_byte() const { return factors != operands; }
};

std::string grouped_text(const GroupedShape& shape, const Element& element, std::string tail) {
  for (size_t at; (at = tail.find("{n}")) != std::string::npos;)
    tail.replace(at, 3, std::to_string(shape.n));
  const bool transposed = element.transposed;
  const auto weight = [&](const char* name, int n) {
    return fmt::format(", {}: {}[{}, {}, {}]", name, element.factors, shape.groups,
                       transposed ? n : shape.k, transposed ? shape.k : n);
  };
  const auto product = [&](const char* result, const char* name) {
    return fmt::format("  {} = {}(grouped_matmul(x, {}({}), o{}){})\n", result,
                       element.is_byte() ? "cast" : "", transposed ? "transpose" : "", name,
                       element.fast ? ", fast=true" : "", element.is_byte() ? ", f32" : "");
  };
  const bool halves = tail.find('h') != std::string::npos;
  const bool two = tail.find('z') != std::string::npos;
  const std::string weights =
      halves ? weight("w", 2 * shape.n) : weight("w", shape.n) + (two ? weight("v", shape.n) : "");
  const std::string products =
      halves ? product("h", "w") : product("y", "w") + (two ? product("z", "v") : "");
  return fmt::format(
      "graph grouped(x: {8}[{1}, {2}]{3}, o: s32[{4}], b: {0}[{5}], r: {0}[{1}, {5}], "
      "t: {0}[{1}, 1]) {{\n{6}  return {7}\n}}\n",
      element.operands, shape.rows, shape.k, weights, shape.groups, shape.n, products, tail,
      element.factors);
}

std::string text_of_halves(size_t index) {
  const char* dtype = index / 2 % 2 == 0 ? "bf16" : "f16";
  return grouped_text(kGroupedShapes[index % std::size(kGroupedShapes)],
                      {dtype, dtype, index / 4 % 3 != 0},
                      kGroupedTails[index % std::size(kGroupedTails)]);
}
std::string text_of_bytes(size_t index) {
  const bool floats = index / 5 % 3 > 0;
  return grouped_text(kGroupedShapes[index % std::size(kGroupedShapes)],
                      {floats ? "f8e4m3" : "s8", "f32", true, index / 5 % 3 == 2},
                      kByteTails[index % std::size(kByteTails)]);
}

std::vector<Prepared> make_cases(std::string (*text_of)(size_t), ir::Mode mode) {
  constexpr size_t kCount = 144;  // every shape, tail and kind of ends meets
  std::vector<Prepared> prepared(kCount);
  in_parallel(kCount, [&](int i) {
    const auto index = static_cast<size_t>(i);
    const GroupedShape& shape = kGroupedShapes[index % std::size(kGroupedShapes)];
    const auto seed = static_cast<uint32_t>(index + 1);
    prepared[index] = prepare_text(
        text_of(index), {{"o", ends_of(shape, static_cast<uint32_t>(index / 9 % 4), seed)}}, seed,
        mode);
    ATTACCA_CHECK(prepared[index].each->problem.products[0].groups.has_value(), "no groups");
  });
  return prepared;
}
const std::vector<Prepared>& grouped_cases(ir::Mode mode) {
  static const std::vector<Prepared> fp32 = make_cases(text_of_halves, ir::Mode::Fp32);
  static const std::vector<Prepared> eager = make_cases(text_of_halves, ir::Mode::Eager);
  return mode == ir::Mode::Eager ? eager : fp32;
}
const std::vector<Prepared>& byte_cases() {
  static const std::vector<Prepared> made = make_cases(text_of_bytes, ir::Mode::Fp32);
  return made;
}

std::vector<std::string> grouped_templates(bool bytes = false) {
  std::vector<std::string> names;
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.grouped && (ir::size_of(each.input_types.front()) == 1) == bytes)
      names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

class GroupedTemplates : public ::testing::TestWithParam<std::string> {};

TEST_P(GroupedTemplates, computeEveryCaseRightOrRefuseIt) {
  run_all(GetParam(), grouped_cases(ir::Mode::Fp32), 0x1p-7);
}
TEST_P(GroupedTemplates, computeEveryCaseOfEagerModeRightOrRefuseIt) {
  run_all(GetParam(), grouped_cases(ir::Mode::Eager), 0x1p-7);
}

INSTANTIATE_TEST_SUITE_P(Gpu, GroupedTemplates, ::testing::ValuesIn(grouped_templates()),
                         template_test_name);

class GroupedBytes : public ::testing::TestWithParam<std::string> {};

// Tensor cores add products of 8-bit floats with about 14 bits of the largest one: those of a tile
// of k where each tile is summed by itself, else all. In a gate both factors have errors.
TEST_P(GroupedBytes, computeEveryCaseRightOrRefuseIt) {
  const auto* kernel = GetParam().empty() ? nullptr : toolbox()->catalog().find(GetParam());
  const double slack = kernel && kernel->fast_accumulation ? 0x1p-6 : 0x1p-9;
  run_all(GetParam(), byte_cases(), slack, slack);
}

INSTANTIATE_TEST_SUITE_P(Gpu, GroupedBytes, ::testing::ValuesIn(grouped_templates(true)),
                         template_test_name);

// The same bits every time, on one launch after the other.
TEST(GroupedRuns, giveTheSameBitsEveryTime) {
  for (const Prepared& prepared : grouped_cases(ir::Mode::Fp32)) {
    if (prepared.each->problem.m < 500) continue;
    for (const std::string& kernel : grouped_templates()) {
      if (kernel.empty() || is_refused(*prepared.each, kernel)) continue;
      const Candidate candidate{.kind = CandidateKind::Fused, .kernel = kernel};
      const auto first = run_candidate(*prepared.each, candidate);
      ASSERT_TRUE(first) << to_string(first.error());
      for (int i = 0; i < 2; ++i) {
        const auto again = run_candidate(*prepared.each, candidate);
        ASSERT_TRUE(again);
        EXPECT_EQ("", compare_bits(*again, *first)) << kernel;
      }
    }
  }
}

}  // namespace
}  // namespace attacca::testing
