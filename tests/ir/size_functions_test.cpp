#include "ir/graph/size_functions.hpp"

#include <random>

#include "gtest/gtest.h"

#include "ir/text/text.hpp"

namespace attacca::ir {
namespace {

const Dim M = Dim::symbol("M"), N = Dim::symbol("N");

TEST(SizeFunctions, WhatDividesLeavesTheFormula) {
  EXPECT_EQ(floor_div(M * 2 + 3, 2), M + 1);
  EXPECT_EQ(to_string(floor_div(M * 4 + 5, 3)), "M + floordiv(M + 2, 3) + 1");
  EXPECT_EQ(floor_div(M * N, N), M);
  EXPECT_EQ(ceil_div(M * N, N), M);
  EXPECT_EQ(floor_div(-7, 2), Dim(-4));
  EXPECT_EQ(ceil_div(M, 3), floor_div(M + 2, 3));
}

TEST(SizeFunctions, FloorsOfFloorsAreOne) {
  EXPECT_EQ(floor_div(floor_div(M, 5) + 3, 2), floor_div(M + 15, 10));
  EXPECT_EQ(floor_div(floor_div(M, 5) * 3 + 1, 3), floor_div(M, 5));
  EXPECT_EQ(floor_div(floor_div(M, N) + 3, 2), floor_div(floor_div(M, N) + 1, 2) + 1);
}

TEST(SizeFunctions, HalvesAddUp) {
  EXPECT_EQ(floor_div(M, 2) + ceil_div(M, 2), M);
  EXPECT_EQ(maximum(ceil_div(M, 2), 0), ceil_div(M, 2));
  EXPECT_EQ(floor_div(M * N + N, 2) + ceil_div(M * N + N, 2), M * N + N);
}

TEST(SizeFunctions, BoundsDecide) {
  EXPECT_EQ(maximum(M, 0), M);
  EXPECT_EQ(minimum(M + 3, 2), Dim(2));
  EXPECT_EQ(minimum(M, M + N), M);
  EXPECT_EQ(minimum(minimum(M, 5), 7), minimum(M, 5));
  EXPECT_EQ(maximum(floor_div(M, 4), -1), floor_div(M, 4));
  EXPECT_EQ(to_string(maximum(M - 3, 0)), "max(M + -3, 0)");
  EXPECT_EQ(minimum(M, N), minimum(N, M));
  EXPECT_EQ(lower_bound(M - minimum(M, 5)), 0);
  EXPECT_EQ(lower_bound(maximum(M, 5) - M), 0);
  EXPECT_EQ(minimum(M, maximum(M - 5, 0)), maximum(M - 5, 0));
  EXPECT_EQ(maximum(M, minimum(M + 5, N)), maximum(minimum(M + 5, N), M));
  EXPECT_EQ(lower_bound(M - floor_div(M + N, 3)), std::nullopt);
  EXPECT_EQ(minimum(M, 5), minimum(5, M));
  EXPECT_FALSE(minimum(M, 5) == minimum(M, 6));
  EXPECT_EQ(lower_bound(M - N), std::nullopt);
  EXPECT_EQ(upper_bound(minimum(M, 5) * 3), 15);
}

TEST(SizeFunctions, NamesTheSymbolsInThem) {
  std::vector<std::string> symbols;
  (minimum(floor_div(M + N, 3), 8) * N).collect_symbols(symbols);
  EXPECT_EQ(symbols, (std::vector<std::string>{"N", "M"}));
}

TEST(SizeFunctions, EvaluateOrSayWhy) {
  EXPECT_EQ(minimum(M, 5).evaluate({{"M", 9}}), 5);
  EXPECT_EQ(floor_div(M, 2).evaluate({}).error().fix, "give it with --dim M=SIZE");
  EXPECT_FALSE(floor_div(N, M).evaluate({{"M", 0}, {"N", 1}}));
  EXPECT_FALSE((minimum(M, 5) * INT64_MAX).evaluate({{"M", 2}}));
  EXPECT_FALSE(floor_div(M - 5, 2).evaluate({{"M", 2}}));
}

TEST(SizeFunctions, LongFormulasOverflow) {
  Dim size = M;
  for (int i = 0; i < 200; ++i) size = floor_div(size + minimum(size, N), 3);
  EXPECT_TRUE(size.overflowed());
}

// Random formulas beside their values by plain arithmetic; printed and parsed they are the same.
struct Sample {
  Dim dim;
  int64_t value;
};

class Samples {
 public:
  Samples(uint64_t seed, int64_t m, int64_t n) : random_(seed), m_(m), n_(n) {}

  Sample make(int depth) {
    const int kind = depth == 0 ? below(3) : below(8);
    if (kind == 0) return {M, m_};
    if (kind == 1) return {N, n_};
    if (kind == 2) {
      const int64_t number = below(9) - 3;
      return {number, number};
    }
    const Sample a = make(depth - 1), b = make(depth - 1);
    const int64_t by = 1 + below(4);
    switch (kind) {
      case 3:
        return {a.dim + b.dim, a.value + b.value};
      case 4:
        return {a.dim * b.dim, a.value * b.value};
      case 5:
        return {minimum(a.dim, b.dim), std::min(a.value, b.value)};
      case 6:
        return {maximum(a.dim, b.dim), std::max(a.value, b.value)};
      default: {
        int64_t down = a.value / by;
        while (down * by > a.value) --down;
        return {floor_div(a.dim, by), down};
      }
    }
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }
  std::mt19937_64 random_;
  int64_t m_, n_;
};

TEST(SizeFunctions, RandomFormulasHaveTheirValues) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const int64_t m = static_cast<int64_t>(seed % 7), n = static_cast<int64_t>(seed / 7 % 5);
    const auto [dim, value] = Samples(seed, m, n).make(3);
    if (dim.overflowed()) continue;
    const SymbolValues sizes{{"M", m}, {"N", n}};
    EXPECT_LE(lower_bound(dim).value_or(value), value) << to_string(dim);
    EXPECT_GE(upper_bound(dim).value_or(value), value) << to_string(dim);
    if (value < 0) continue;
    ASSERT_EQ(dim.evaluate(sizes), value) << to_string(dim) << " M=" << m << " N=" << n;
    ++compared;
    const std::string text =
        "graph g(x: f32[M, N]) {\n  return arange([0, " + to_string(dim) + "])\n}\n";
    const auto graph = parse_graph(text);
    ASSERT_TRUE(graph) << text << graph.error().what;
    EXPECT_EQ(graph->type(graph->outputs()[0].value).shape[0], dim) << text;
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace attacca::ir
