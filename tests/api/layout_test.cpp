// Tensors with other strides than the graph declares, and tensors that share memory.
#include <cmath>
#include <cstring>

#include "gtest/gtest.h"

#include "attacca/attacca.hpp"

namespace {

using attacca::Status;
using Strides = std::vector<int64_t>;

constexpr const char* kText =
    "graph g(x: f32[B, M, 3], w: f32[4, 3], r: f32[B, M, 4]) {\n"
    "  return y = relu(x @ transpose(w)) + r\n"
    "}\n";

void expect_failure(const Status& status, std::string_view what) {
  ASSERT_FALSE(status.ok()) << "no failure, wanted " << what;
  EXPECT_NE(status.what().find(what), std::string_view::npos) << status.text();
  EXPECT_FALSE(status.fix().empty()) << status.text();
}

attacca::Plan plan_of(const char* text) {
  return *attacca::Plan::compile(*attacca::Graph::parse(text), {.threads = 2});
}

std::vector<float> numbers(size_t count) {
  std::vector<float> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = std::sin(static_cast<float>(i + 1));
  return all;
}

struct Layout {
  Strides x, w, r, y;
};

// Every element by the strides, each result against a plain loop; memory between elements is
// unchanged.
void expect_right(const attacca::Plan& plan, int64_t batch, int64_t m, const Layout& layout) {
  const auto instance =
      plan.prepare({{"B", batch}, {"M", m}}, {}, {layout.x, layout.w, layout.r, layout.y});
  ASSERT_TRUE(instance) << instance.status().text();
  const std::vector<float> x = numbers(400), w = numbers(400), r = numbers(400);
  std::vector<float> y(400, 77.0f), want = y;
  const auto strides = [](const Strides& given, Strides dense) {
    return given.empty() ? dense : given;
  };
  const Strides sx = strides(layout.x, {m * 3, 3, 1}), sw = strides(layout.w, {3, 1}),
                sr = strides(layout.r, {m * 4, 4, 1}), sy = strides(layout.y, {m * 4, 4, 1});
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < 4; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 3; ++k)
          sum += static_cast<double>(x[static_cast<size_t>(b * sx[0] + i * sx[1] + k * sx[2])]) *
                 w[static_cast<size_t>(j * sw[0] + k * sw[1])];
        want[static_cast<size_t>(b * sy[0] + i * sy[1] + j * sy[2])] = static_cast<float>(
            std::fmax(sum, 0.0) + r[static_cast<size_t>(b * sr[0] + i * sr[1] + j * sr[2])]);
      }
  const Status status = instance->run({x.data(), w.data(), r.data()}, {y.data()});
  ASSERT_TRUE(status) << status.text();
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], want[i], 1e-5) << i;
}

TEST(Layout, EveryStrideIsTheTensors) {
  const attacca::Plan plan = plan_of(kText);
  const Layout layouts[] = {
      {},
      {.x = {35, 7, 1}, .w = {}, .r = {}, .y = {}},                      // columns of wider rows
      {.x = {40, 7, 1}, .w = {5, 1}, .r = {30, 6, 1}, .y = {45, 9, 1}},  // gaps between batches too
      {.x = {}, .w = {1, 4}, .r = {}, .y = {}},                          // transposed
      {.x = {1, 2, 10}, .w = {2, 20}, .r = {4, 8, 1}, .y = {20, 1, 5}},
      {.x = {0, 3, 1}, .w = {0, 1}, .r = {0, 0, 1}, .y = {}},  // repeated
      {.x = {0, 0, 0}, .w = {0, 0}, .r = {0, 0, 0}, .y = {24, 4, 1}},
  };
  for (const Layout& layout : layouts)
    for (const auto& [batch, m] : {std::pair{2, 5}, {1, 5}, {2, 1}, {1, 1}, {0, 5}, {2, 0}})
      expect_right(plan, batch, m, layout);
}

TEST(Layout, AxesOfOneElementHaveAnyStride) {
  expect_right(plan_of(kText), 1, 1, {.x = {-9, 999, 1}, .w = {}, .r = {0, 0, 1}, .y = {-1, 7, 1}});
}

TEST(Layout, DeclaredStridesAreReplaced) {
  const attacca::Plan plan = plan_of("graph g(x: f32[M, 2; 5, 1]) { return y = x * 2 }");
  const std::vector<float> x = {1, 2, 3, 4};
  std::vector<float> y(5, 9);
  const auto instance = plan.prepare({{"M", 2}}, {}, {{2, 1}, {3, 1}});
  ASSERT_TRUE(instance) << instance.status().text();
  EXPECT_EQ(instance->input_bytes(0), 16u);
  EXPECT_EQ(instance->output_bytes(0), 20u);
  ASSERT_TRUE(instance->run({x.data()}, {y.data()}));
  EXPECT_EQ(y, (std::vector<float>{2, 4, 9, 6, 8}));
}

TEST(Layout, WhatCannotBeTakenIsRefused) {
  const attacca::Plan plan = plan_of(kText);
  const auto refuse = [&](const std::vector<Strides>& strides, std::string_view what) {
    expect_failure(plan.prepare({{"B", 2}, {"M", 5}}, {}, strides).status(), what);
  };
  refuse({{-15, 3, 1}, {}, {}, {}}, "x has a negative stride");
  refuse({{}, {}, {}, {20, 4, -1}}, "y has a negative stride");
  refuse({{}, {}, {}, {20, 0, 1}}, "elements of output y may overlap");
  refuse({{}, {}, {}, {4, 4, 1}}, "elements of output y may overlap");
  refuse({{}, {}, {}}, "3 strides for 3 inputs and 1 outputs");
  refuse({{INT64_MAX / 2, 3, 1}, {}, {}, {}}, "more bytes than there are addresses");
}

class Overlap : public testing::Test {
 protected:
  // y = x * 2, z = x + 1 over [M, 4], rows of `row` elements.
  Status run(size_t x, size_t y, size_t z, int64_t row, int64_t rows = 3) {
    const Strides strides = {row, 1};
    const auto instance = plan_.prepare({{"M", rows}}, {}, {strides, strides, strides});
    if (!instance) return instance.status();
    memory_ = numbers(100);
    return instance->run({memory_.data() + x}, {memory_.data() + y, memory_.data() + z});
  }
  attacca::Plan plan_ = plan_of("graph g(x: f32[M, 4]) { y = x * 2; z = x + 1; return y, z }");
  std::vector<float> memory_;
};

TEST_F(Overlap, IsRefusedBeforeAnythingIsWritten) {
  expect_failure(run(0, 0, 40, 4), "output y overlaps input x");
  EXPECT_EQ(memory_, numbers(100));
  expect_failure(run(0, 11, 40, 4), "output y overlaps input x");
  expect_failure(run(11, 0, 40, 4), "output y overlaps input x");
  expect_failure(run(0, 40, 40, 4), "output z overlaps output y");
  expect_failure(run(0, 51, 40, 4), "output z overlaps output y");
  expect_failure(run(0, 3, 40, 12), "output y overlaps input x");
  expect_failure(run(0, 9, 40, 12), "output y overlaps input x");  // with its next row
  EXPECT_EQ(memory_, numbers(100));
}

TEST_F(Overlap, ColumnsOfTheSameRowsAreApart) {
  const std::vector<float> before = numbers(100);
  ASSERT_TRUE(run(0, 4, 8, 12));
  for (size_t row = 0; row < 3; ++row)
    for (size_t i = 0; i < 4; ++i) {
      const size_t at = row * 12 + i;
      EXPECT_EQ(memory_[at], before[at]);
      EXPECT_EQ(memory_[at + 4], before[at] * 2);
      EXPECT_EQ(memory_[at + 8], before[at] + 1);
    }
  EXPECT_TRUE(run(0, 12, 24, 4));   // one after the other
  EXPECT_TRUE(run(0, 4, 8, 4, 1));  // single rows
  EXPECT_TRUE(run(0, 0, 0, 4, 0));  // nothing is in them
  EXPECT_TRUE(run(0, 16, 8, 12));   // y begins in the second row of x
}

TEST(Overlaps, AResidualIsNotUpdatedInPlace) {
  const attacca::Plan plan =
      plan_of("graph g(x: f32[M, 8], w: f32[8, 8], r: f32[M, 8]) { return y = x @ w + r }");
  const std::vector<float> x = numbers(32), w = numbers(64);
  std::vector<float> r = numbers(32);
  expect_failure(plan.prepare({{"M", 4}})->run({x.data(), w.data(), r.data()}, {r.data()}),
                 "output y overlaps input r");
  EXPECT_EQ(r, numbers(32));
  // Two inputs may be the same tensor.
  std::vector<float> y(64);
  EXPECT_TRUE(plan.prepare({{"M", 8}})->run({w.data(), w.data(), w.data()}, {y.data()}));
}

TEST(Constants, TheirTypeIsTheInputs) {
  const auto graph = *attacca::Graph::parse("graph g(x: f32[M, 3], w: f32[3, 4]) { return x @ w }");
  const std::vector<float> w = numbers(12);
  const auto bytes = std::as_bytes(std::span(w));
  expect_failure(graph.with_constant("w", "s32[3, 4]", bytes).status(), "");
  expect_failure(graph.with_constant("w", "f32[4, 3]", bytes).status(), "shape [4, 3]");
  expect_failure(graph.with_constant("w", "f32[12]", bytes).status(), "shape [12]");
  expect_failure(graph.with_constant("w", "f32[3, 5]", bytes).status(), "48 bytes");
  expect_failure(graph.with_constant("w", "f33[3, 4]", bytes).status(), "f33");
  EXPECT_TRUE(graph.with_constant("w", "f32[3, 4]", bytes).ok());
}

}  // namespace
