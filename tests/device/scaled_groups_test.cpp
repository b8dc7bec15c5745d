// Grouped products of 8-bit floats whose blocks have scales, as DeepSeek-V3's experts: every
// template that takes them and the unfused path, on groups of many sizes and ends of every kind.
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "launch/candidate.hpp"
#include "support/check.hpp"

namespace attacca::testing {
namespace {

struct GroupedShape {
  int rows, n, k, groups;
};
// Neither columns nor values of k need be whole blocks.
constexpr GroupedShape kShapes[] = {{1, 64, 64, 4},     {7, 208, 336, 3},      {16, 144, 1104, 40},
                                    {33, 528, 640, 8},  {130, 80, 512, 5},     {300, 272, 208, 2},
                                    {515, 136, 64, 33}, {700, 528, 192, 1},    {64, 1040, 320, 128},
                                    {5, 129, 31, 3},    {1000, 384, 1024, 256}};

// y: the product. b: a row, r: full, t: a column; e: a row for each group g.
constexpr const char* kTails[] = {
    "y",
    "cast(silu(y * b) * t, bf16)",
    "cast(y * t, bf16) + r",
    "cast(silu(y + gather(e, g)), bf16)",
};

enum class Gate : uint8_t { None, Halves, Two };

// What of a case varies beside its shape and its tail.
struct Form {
  bool transposed = true;   // the matrices are (N, K)
  bool along_rows = false;  // the scales of x are (K / 128, R)
  bool gathered = false;    // an index names the rows of x
  Gate gate = Gate::None;   // in place of the tail: of one product's halves, or of two products
};

std::string text_of(const GroupedShape& shape, const Form& form, const char* tail) {
  const auto blocks = [](int extent) { return (extent + 127) / 128; };
  // Half a product's columns must be whole blocks.
  const int columns = form.gate == Gate::Halves ? 256 * blocks(shape.n) : shape.n;
  const int out = form.gate == Gate::Halves ? columns / 2 : columns;
  const auto [rows, row] =
      form.transposed ? std::pair(columns, shape.k) : std::pair(shape.k, columns);
  const auto product = [&](const char* weights, const char* scales) {
    return fmt::format("grouped_matmul(a, {}(scale_blocks({}, {}, [1, 128, 128])), o)",
                       form.transposed ? "transpose" : "", weights, scales);
  };
  const std::string gate =
      form.gate == Gate::Halves
          ? fmt::format("cast(silu(y[:, 0:{0}]) * y[:, {0}:{1}], bf16)", out, columns)
          : "cast(silu(y) * " + product("w1", "v1") + ", bf16)";
  return fmt::format(
      "graph grouped(x: f8e4m3[{0}, {1}], s: f32[{2}], w: f8e4m3[{3}, {4}, {5}], "
      "w1: f8e4m3[{3}, {4}, {5}], v: f32[{3}, {6}, {7}], v1: f32[{3}, {6}, {7}], o: s32[{3}], "
      "b: f32[{8}], t: f32[{0}, 1], r: bf16[{0}, {8}], e: f32[{3}, {8}], i: s32[{0}]) {{\n"
      "  a = scale_blocks({9}, {10}, [1, 128])\n  g = group_ids(o, [{0}])\n  y = {11}\n"
      "  return {12}\n}}\n",
      shape.rows, shape.k,
      form.along_rows ? fmt::format("{}, {}", blocks(shape.k), shape.rows)
                      : fmt::format("{}, {}", shape.rows, blocks(shape.k)),
      shape.groups, rows, row, blocks(rows), blocks(row), out, form.gathered ? "gather(x, i)" : "x",
      form.along_rows ? "transpose(s)" : "s", product("w", "v"),
      form.gate == Gate::None ? std::string(tail) : gate);
}

Prepared case_of(const GroupedShape& shape, const Form& form, const char* tail, uint32_t kind,
                 ir::Bindings given = {}) {
  const auto seed = static_cast<uint32_t>(shape.rows + 7 * shape.n) + kind;
  given.emplace("o", random_ends(shape.rows, shape.groups, kind, seed));
  given.emplace("i", random_index(ir::DType::S32, shape.rows, shape.rows, seed));
  Prepared made = prepare_text(text_of(shape, form, tail), std::move(given), seed, ir::Mode::Fp32);
  const problem::Problem& problem = made.each->problem;
  ATTACCA_CHECK(problem.products[0].groups && problem.views.products[0].scales,
                made.name + "no groups of scaled blocks");
  return made;
}

const std::vector<Prepared>& cases() {
  static const std::vector<Prepared> made = [] {
    constexpr size_t kCount = std::size(kShapes) * std::size(kTails) * 3;
    std::vector<Prepared> prepared(kCount);
    in_parallel(kCount, [&](int i) {
      const auto index = static_cast<size_t>(i);
      const size_t round = index / std::size(kShapes);
      const Form form{.transposed = index % 9 != 4,
                      .along_rows = index % 3 == 1,
                      .gathered = round % 3 == 1,
                      .gate = static_cast<Gate>(index % 4 == 3 ? 1 + index / 4 % 2 : 0)};
      prepared[index] =
          case_of(kShapes[index % std::size(kShapes)], form,
                  kTails[index / std::size(kShapes) % std::size(kTails)], index / 5 % 4);
    });
    return prepared;
  }();
  return made;
}

std::vector<std::string> scaling_templates() {
  std::vector<std::string> names;
  for (const templates::Template& each : toolbox()->catalog().templates())
    if (each.grouped && each.scaled_blocks) names.push_back(each.name);
  names.push_back("");  // the unfused path
  return names;
}

class ScaledGroups : public ::testing::TestWithParam<std::string> {};

// Tensor cores add the products of a block with about 14 bits of the largest one.
TEST_P(ScaledGroups, AreAsExactAsTheirAccumulation) {
  run_all(GetParam(), cases(), 0x1p-11, 0x1p-11);
}

INSTANTIATE_TEST_SUITE_P(Gpu, ScaledGroups, ::testing::ValuesIn(scaling_templates()),
                         template_test_name);

ir::Tensor filled(ir::DType dtype, const std::vector<int64_t>& shape,
                  const std::function<double(int64_t)>& value) {
  ir::Tensor made = *ir::Tensor::make(dtype, shape);
  for (int64_t i = 0; i < made.size(); ++i) made.set_number(i, value(i));
  return made;
}

// Whole numbers and powers of two, so that every order of summation gives the same bits. A scale
// that is NaN, zero or large changes the rows of its row, or of its group, alone.
TEST(ScaledGroupsEdges, ScalesStayInTheirRowsAndGroups) {
  constexpr GroupedShape kShape{90, 272, 400, 6};
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto small = [](int64_t i) { return double(i * 7919 % 5) - 2; };
  for (uint32_t kind = 0; kind < 4; ++kind) {
    const Prepared prepared = case_of(
        kShape, {}, "y", kind,
        {{"x", filled(ir::DType::F8E4M3, {90, 400}, small)},
         {"w", filled(ir::DType::F8E4M3, {6, 272, 400}, small)},
         {"s", filled(ir::DType::F32, {90, 4},
                      [](int64_t i) {
                        return i == 4 * 40 + 1 ? kNan : i == 4 * 41 ? 0 : i % 2 + 1;
                      })},
         {"v", filled(ir::DType::F32, {6, 3, 4},
                      [](int64_t i) { return i == 12 * 2 + 5 ? kNan : std::ldexp(1, i % 3); })}});
    size_t ran = 0;
    for (const std::string& kernel : scaling_templates()) {
      if (is_refused(*prepared.each, kernel)) continue;
      const auto outputs = run_candidate(*prepared.each, candidate_of(kernel));
      ASSERT_TRUE(outputs) << kernel << to_string(outputs.error());
      EXPECT_EQ("", compare_bits(*outputs, prepared.reference.unfused)) << kernel << " " << kind;
      ++ran;
    }
    EXPECT_GE(ran, 2U);
  }
}

TEST(ScaledGroupsRuns, GiveTheSameBitsEveryTime) {
  EXPECT_GT(expect_same_bits(cases(), scaling_templates(), 300), 0);
}

}  // namespace
}  // namespace attacca::testing
