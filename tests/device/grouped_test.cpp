// Every grouped template, on groups of many sizes and ends of every kind, in both layouts and modes
// and with epilogues of every kind of operand, on rows as they lie and on rows that an index names:
// right, or refused with a reason; the same bits every time.
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "launch/candidate.hpp"
#include "support/check.hpp"

namespace attacca::testing {
namespace {

struct GroupedShape {
  int rows, n, k, groups;
};
constexpr GroupedShape kGroupedShapes[] = {
    {1, 64, 64, 4},     {7, 208, 336, 3},   {16, 144, 1104, 40},
    {33, 528, 640, 8},  {130, 80, 512, 5},  {300, 272, 200, 2},
    {515, 144, 64, 33}, {700, 528, 192, 1}, {64, 1040, 320, 128}};

// y: the product; z: another one; h: one with twice the columns. b: a row, r: full, t: a column. e,
// f: a row for each group, f of twice the columns; s: a number for each; g: the rows' groups.
constexpr const char* kGroupedTails[] = {
    "y",
    "silu(y * b) * t",
    "y * t + r",
    "cast(gelu(y) + r, f32)",
    "silu(y) * z",
    "silu(h[:, :{n}]) * h[:, {n}:]",
    "silu(h[:, ::2]) * (h[:, 1::2] + b) * t",
    "cast(silu(y) * z, f32)",
    "silu(y + gather(e, g)) * t",
    "silu(h[:, ::2] + gather(f, g)[:, ::2]) * (h[:, 1::2] + gather(f, g)[:, 1::2])",
    "relu(y * gather(s, g)) * (z + gather(e, g))",
};

// The products of bytes are f32 here, and so are b and t.
constexpr const char* kByteTails[] = {
    "y",
    "cast(y * t, bf16)",
    "cast(silu(y * b) * t, bf16)",
    "cast(silu(y * t) * (z * b), bf16)",
    "cast(silu(h[:, :{n}] * t) * (h[:, {n}:] * t), bf16)",
};

// What is multiplied, and what the tail reads.
struct Element {
  std::string factors, operands;
  bool transposed, fast = false;
  std::string index = {};  // the dtype of an index that names the rows; empty: there is none
  bool is_byte() const { return factors != operands; }
};

// Of how many rows an index names some.
int source_rows(const GroupedShape& shape) {
  return shape.rows / 2 + 3;
}

std::string grouped_text(const GroupedShape& shape, const Element& element, std::string tail) {
  for (size_t at; (at = tail.find("{n}")) != std::string::npos;)
    tail.replace(at, 3, std::to_string(shape.n));
  const bool transposed = element.transposed;
  const auto weight = [&](const char* name, int n) {
    return fmt::format(", {}: {}[{}, {}, {}]", name, element.factors, shape.groups,
                       transposed ? n : shape.k, transposed ? shape.k : n);
  };
  const auto product = [&](const char* result, const char* name) {
    return fmt::format("  {} = {}(grouped_matmul({}, {}({}), o{}){})\n", result,
                       element.is_byte() ? "cast" : "", element.index.empty() ? "x" : "a",
                       transposed ? "transpose" : "", name, element.fast ? ", fast=true" : "",
                       element.is_byte() ? ", f32" : "");
  };
  const bool halves = tail.find("h[") != std::string::npos;
  const bool two = tail.find('z') != std::string::npos;
  const std::string weights =
      halves ? weight("w", 2 * shape.n) : weight("w", shape.n) + (two ? weight("v", shape.n) : "");
  const std::string products =
      halves ? product("h", "w") : product("y", "w") + (two ? product("z", "v") : "");
  const bool gathers = !element.index.empty();
  return fmt::format(
      "graph grouped(x: {8}[{9}, {2}]{3}, o: s32[{4}], b: {0}[{5}], r: {0}[{1}, {5}], "
      "t: {0}[{1}, 1], e: {0}[{4}, {5}], f: {0}[{4}, {12}], s: {0}[{4}, 1]{10}) {{\n{11}"
      "  g = group_ids(o, [{1}])\n{6}  return {7}\n}}\n",
      element.operands, shape.rows, shape.k, weights, shape.groups, shape.n, products, tail,
      element.factors, gathers ? source_rows(shape) : shape.rows,
      gathers ? fmt::format(", i: {}[{}]", element.index, shape.rows) : "",
      gathers ? "  a = gather(x, i)\n" : "", 2 * shape.n);
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

std::string text_of_named(size_t index) {
  const char* dtype = index / 2 % 2 == 0 ? "bf16" : "f16";
  return grouped_text(kGroupedShapes[index % std::size(kGroupedShapes)],
                      {dtype, dtype, index / 4 % 3 != 0, false, index % 3 == 0 ? "s64" : "s32"},
                      kGroupedTails[index % std::size(kGroupedTails)]);
}

std::vector<Prepared> make_cases(std::string (*text_of)(size_t), ir::Mode mode) {
  constexpr size_t kCount = 144;  // every shape, tail and kind of ends meets
  std::vector<Prepared> prepared(kCount);
  in_parallel(kCount, [&](int i) {
    const auto index = static_cast<size_t>(i);
    const GroupedShape& shape = kGroupedShapes[index % std::size(kGroupedShapes)];
    const auto seed = static_cast<uint32_t>(index + 1);
    ir::Bindings given{
        {"o", random_ends(shape.rows, shape.groups, static_cast<uint32_t>(index / 9 % 4), seed)}};
    const bool named = text_of == text_of_named;
    if (named)
      given.emplace("i", random_index(index % 3 == 0 ? ir::DType::S64 : ir::DType::S32, shape.rows,
                                      source_rows(shape), seed));
    prepared[index] = prepare_text(text_of(index), std::move(given), seed, mode);
    const problem::Problem& problem = prepared[index].each->problem;
    ATTACCA_CHECK(problem.products[0].groups.has_value(), "no groups");
    ATTACCA_CHECK(names_rows(problem) == named, "an index that is not the product's");
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

const std::vector<Prepared>& named_cases(ir::Mode mode) {
  static const std::vector<Prepared> fp32 = make_cases(text_of_named, ir::Mode::Fp32);
  static const std::vector<Prepared> eager = make_cases(text_of_named, ir::Mode::Eager);
  return mode == ir::Mode::Eager ? eager : fp32;
}

// Those that read rows by an index, and some before which a kernel gathers them.
std::vector<std::string> templates_of_named_rows() {
  std::vector<std::string> names = {"grouped_tn_128x128_1x1_pingpong_direct_f1_d16",
                                    "grouped_tt_16x64_1x1_swap_gate_f2_d16",
                                    "grouped_mma_tn_64x64x32_f2_d16"};
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.gathered && each.code_bits == 0) names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

std::vector<std::string> grouped_templates(bool bytes = false) {
  std::vector<std::string> names;
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.grouped && !each.gathered && each.code_bits == 0 && !each.scaled_blocks &&
        (ir::size_of(each.input_types.front()) == 1) == bytes)
      names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

class GroupedTemplates : public ::testing::TestWithParam<std::string> {};

TEST_P(GroupedTemplates, ComputeEveryCaseRightOrRefuseIt) {
  run_all(GetParam(), grouped_cases(ir::Mode::Fp32), 0x1p-7);
}
TEST_P(GroupedTemplates, ComputeEveryCaseOfEagerModeRightOrRefuseIt) {
  run_all(GetParam(), grouped_cases(ir::Mode::Eager), 0x1p-7);
}

INSTANTIATE_TEST_SUITE_P(Gpu, GroupedTemplates, ::testing::ValuesIn(grouped_templates()),
                         template_test_name);

class NamedRows : public ::testing::TestWithParam<std::string> {};

TEST_P(NamedRows, ComputeEveryCaseRightOrRefuseIt) {
  run_all(GetParam(), named_cases(ir::Mode::Fp32), 0x1p-7);
}
TEST_P(NamedRows, ComputeEveryCaseOfEagerModeRightOrRefuseIt) {
  run_all(GetParam(), named_cases(ir::Mode::Eager), 0x1p-7);
}

// The same index, but for some numbers that name no row.
ir::Tensor with_rows_outside(const ir::Tensor& index, int64_t rows) {
  const int64_t outside[] = {rows, -rows - 1, (int64_t{1} << 31) - 1, -(int64_t{1} << 31),
                             int64_t{1} << 40};
  const size_t count = index.dtype() == ir::DType::S64 ? 5 : 4;
  ir::Tensor made = *ir::Tensor::make(index.dtype(), index.shape());
  for (int64_t i = 0; i < index.size(); ++i)
    made.set_integer(
        i, i % 3 == 1 ? outside[static_cast<size_t>(i / 3) % count] : index.integer_at(i));
  return made;
}

// Rows that do not exist make their own rows NaN, if these are multiplied, and change no others.
TEST_P(NamedRows, GivesNanForRowsOutside) {
  const launch::Candidate candidate = candidate_of(GetParam());
  int ran = 0;
  for (const Prepared& prepared : named_cases(ir::Mode::Fp32)) {
    Case each = *prepared.each;
    if (is_refused(each, GetParam()) || ++ran > 24) continue;
    const auto inside = run_candidate(each, candidate);
    ASSERT_TRUE(inside) << to_string(inside.error());
    each.inputs["i"] = with_rows_outside(each.inputs["i"], *each.problem.products[0].rows);
    const auto outside = run_candidate(each, candidate);
    ASSERT_TRUE(outside) << to_string(outside.error());
    const ir::Tensor &ends = each.inputs.at("o"), &before = inside->at(0), &after = outside->at(0);
    int64_t last = 0;
    for (int64_t group = 0; group < ends.size(); ++group)
      last = std::max(last, ends.integer_at(group));
    for (int64_t i = 0; i < after.size(); ++i) {
      const int64_t row = i / each.problem.n;
      const double was = before.number_at(i), is = after.number_at(i);
      const bool multiplied = row % 3 == 1 && row < last;
      ASSERT_TRUE(multiplied ? std::isnan(is) : was == is || (std::isnan(was) && std::isnan(is)))
          << prepared.name << "element " << i << ": " << was << ", then " << is;
    }
  }
  EXPECT_GT(ran, 0);
}

INSTANTIATE_TEST_SUITE_P(Gpu, NamedRows, ::testing::ValuesIn(templates_of_named_rows()),
                         template_test_name);

class GroupedBytes : public ::testing::TestWithParam<std::string> {};

// Tensor cores add products of 8-bit floats with about 14 bits of the largest one: those of a tile
// of k where each tile is summed by itself, else all. In a gate both factors have errors.
TEST_P(GroupedBytes, ComputeEveryCaseRightOrRefuseIt) {
  const auto* kernel = GetParam().empty() ? nullptr : toolbox()->catalog().find(GetParam());
  const double slack = kernel && kernel->fast_accumulation ? 0x1p-6 : 0x1p-9;
  run_all(GetParam(), byte_cases(), slack, slack);
}

INSTANTIATE_TEST_SUITE_P(Gpu, GroupedBytes, ::testing::ValuesIn(grouped_templates(true)),
                         template_test_name);

// The same bits every time, on one launch after the other.
TEST(GroupedRuns, GiveTheSameBitsEveryTime) {
  EXPECT_GT(expect_same_bits(grouped_cases(ir::Mode::Fp32), grouped_templates(), 500), 0);
}

}  // namespace
}  // namespace attacca::testing
