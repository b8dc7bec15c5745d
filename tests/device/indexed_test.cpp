// Epilogues that read rows of an operand by an index, as layers of experts read the biases of each
// row's expert: on plain and grouped products, in both modes.
#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "fmt/format.h"

#include "device/harness.hpp"
#include "launch/candidate.hpp"

namespace attacca::testing {
namespace {

struct Shape {
  int rows, n, k, named;
};
constexpr Shape kShapes[] = {
    {1, 64, 64, 4}, {7, 208, 336, 3}, {33, 528, 640, 8}, {130, 80, 512, 5}, {515, 144, 64, 33}};

// y, z: products; h: one with twice the columns. e, f: tables of the rows that g names, f with
// twice the columns; s: a table of one column; t: a column; r: full.
constexpr const char* kTails[] = {
    "silu(y + gather(e, g)) * t",
    "relu(y * gather(s, g) + r)",
    "silu(y + gather(e, g)) * (z + gather(f, g)[:, {n}:])",
    "silu(h[:, ::2] + gather(f, g)[:, ::2]) * (h[:, 1::2] + gather(f, g)[:, 1::2])",
    "cast(y + gather(e, g), f32)",
};

std::string text_of(const Shape& shape, std::string tail, const char* dtype, const char* index,
                    bool grouped) {
  for (size_t at; (at = tail.find("{n}")) != std::string::npos;)
    tail.replace(at, 3, std::to_string(shape.n));
  const bool halves = tail.find('h') != std::string::npos && tail.find("h[") != std::string::npos;
  const bool two = tail.find("z + ") != std::string::npos;
  const auto weight = [&](const char* name, int n) {
    return fmt::format(", {}: {}[{}{}, {}]", name, dtype,
                       grouped ? fmt::format("{}, ", shape.named) : "", n, shape.k);
  };
  const auto product = [&](const char* result, const char* name) {
    return grouped ? fmt::format("  {} = grouped_matmul(x, transpose({}), o)\n", result, name)
                   : fmt::format("  {} = x @ transpose({})\n", result, name);
  };
  const std::string weights =
      halves ? weight("w", 2 * shape.n) : weight("w", shape.n) + (two ? weight("v", shape.n) : "");
  const std::string products =
      halves ? product("h", "w") : product("y", "w") + (two ? product("z", "v") : "");
  return fmt::format(
      "graph indexed(x: {0}[{1}, {2}]{3}{4}, e: {0}[{5}, {6}], f: {0}[{5}, {7}], s: {0}[{5}, 1], "
      "g: {8}[{1}], r: {0}[{1}, {6}], t: {0}[{1}, 1]) {{\n{9}  return {10}\n}}\n",
      dtype, shape.rows, shape.k, weights, grouped ? fmt::format(", o: s32[{}]", shape.named) : "",
      shape.named, shape.n, 2 * shape.n, index, products, tail);
}

ir::Bindings given(const Shape& shape, ir::DType index, bool grouped, uint32_t seed) {
  std::mt19937 random(seed);
  ir::Tensor names = *ir::Tensor::make(index, {shape.rows});
  for (int row = 0; row < shape.rows; ++row)
    names.set_integer(
        row, static_cast<int64_t>(random() % static_cast<uint32_t>(2 * shape.named)) - shape.named);
  ir::Bindings made{{"g", names}};
  if (!grouped) return made;
  ir::Tensor ends = *ir::Tensor::make(ir::DType::S32, {shape.named});
  for (int group = 0; group < shape.named; ++group)
    ends.set_integer(group, int64_t{shape.rows} * (group + 1) / shape.named);
  made.emplace("o", ends);
  return made;
}

std::vector<Prepared> make_cases(ir::Mode mode) {
  constexpr size_t kCount = 2 * std::size(kTails) * std::size(kShapes);
  std::vector<Prepared> prepared(kCount);
  in_parallel(kCount, [&](int i) {
    const auto index = static_cast<size_t>(i);
    const Shape& shape = kShapes[index % std::size(kShapes)];
    const size_t tail = index / std::size(kShapes) % std::size(kTails);
    const bool grouped = index >= kCount / 2;
    const ir::DType type = index % 3 == 0 ? ir::DType::S32 : ir::DType::S64;
    const auto seed = static_cast<uint32_t>(index + 1);
    prepared[index] = prepare_text(text_of(shape, kTails[tail], index % 2 == 0 ? "bf16" : "f16",
                                           ir::name(type).data(), grouped),
                                   given(shape, type, grouped, seed), seed, mode);
  });
  return prepared;
}

const std::vector<Prepared>& cases(ir::Mode mode) {
  static const std::vector<Prepared> fp32 = make_cases(ir::Mode::Fp32);
  static const std::vector<Prepared> eager = make_cases(ir::Mode::Eager);
  return mode == ir::Mode::Eager ? eager : fp32;
}

// The unfused path, and of the templates that take the case some others than for its neighbours:
// all call the same code.
std::vector<std::string> some_templates(const Case& each, size_t number, size_t count) {
  std::vector<std::string> takers;
  for (const templates::Template& kernel : toolbox()->catalog().templates())
    if (kernel.only_named_on == 0 && !is_refused(each, kernel.name)) takers.push_back(kernel.name);
  std::vector<std::string> some{""};
  for (size_t i = 0; i < count && !takers.empty(); ++i)
    some.push_back(takers[(number * 7 + i * takers.size() / count) % takers.size()]);
  return some;
}

void expect_right(ir::Mode mode, size_t step, size_t templates) {
  size_t ran = 0;
  for (size_t i = 0; i < cases(mode).size(); i += step) {
    const Prepared& prepared = cases(mode)[i];
    ASSERT_FALSE(prepared.each->problem.views.indices.empty()) << prepared.name;
    for (const std::string& kernel : some_templates(*prepared.each, i, templates)) {
      const auto got = run_candidate(*prepared.each, candidate_of(kernel));
      ASSERT_TRUE(got) << prepared.name << kernel << to_string(got.error());
      EXPECT_EQ("", compare_with_reference(prepared.reference, *got, kernel.empty() ? 0x1p-7 : 0))
          << prepared.name << kernel;
      ran += !kernel.empty();
    }
  }
  EXPECT_GE(ran, cases(mode).size() / step);
}

TEST(IndexedOperands, AreReadRight) {
  expect_right(ir::Mode::Fp32, 1, 1);
}
TEST(IndexedOperands, AreReadRightInEagerMode) {
  expect_right(ir::Mode::Eager, 3, 1);
}

TEST(IndexedOperands, ARowOutsideIsNaN) {
  for (size_t i = 0; i < cases(ir::Mode::Fp32).size(); i += 5) {
    const Prepared& prepared = cases(ir::Mode::Fp32)[i];
    Case each = *prepared.each;
    if (each.problem.m < 3) continue;
    ir::Tensor outside = *ir::Tensor::make(each.inputs.at("g").dtype(), {each.problem.m});
    for (int64_t row = 0; row < outside.size(); ++row)
      outside.set_integer(
          row, row == 1 ? each.problem.named_rows[0] : each.inputs.at("g").integer_at(row));
    const auto before = run_candidate(each, {});
    each.inputs.at("g") = outside;
    const auto after = run_candidate(each, {});
    ASSERT_TRUE(before && after) << prepared.name;
    for (int64_t at = 0; at < (*after)[0].size(); ++at) {
      const double was = (*before)[0].number_at(at), is = (*after)[0].number_at(at);
      if (at / each.problem.n == 1)
        ASSERT_TRUE(std::isnan(is)) << prepared.name << at;
      else
        ASSERT_TRUE(was == is || (std::isnan(was) && std::isnan(is))) << prepared.name << at;
    }
  }
}

}  // namespace
}  // namespace attacca::testing
