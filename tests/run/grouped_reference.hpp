// What the tests of grouped products share: random tensors, ends of groups, and the products as a
// loop over rows in f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ir/text/text.hpp"
#include "run/pipeline.hpp"

namespace attacca::run::grouped {

using ir::DType;
using ir::Tensor;
using Matrix = std::vector<std::vector<double>>;
using Ends = std::vector<int64_t>;

inline constexpr int64_t kGroups = 5, kInner = 24, kColumns = 12;

inline ir::Graph parse(const std::string& text) {
  auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error())) << text;
  return graph ? *std::move(graph) : ir::Graph();
}

inline Tensor normal(DType dtype, const std::vector<int64_t>& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor made = *Tensor::make(dtype, shape);
  std::normal_distribution<double> draw;
  for (int64_t i = 0; i < made.size(); ++i) made.set_number(i, draw(random));
  return made;
}

// The group of a row by PyTorch's definition of offsets, written as a loop; -1: none.
inline int64_t group_of(int64_t row, const Ends& ends) {
  int64_t begin = 0;
  for (size_t group = 0; group < ends.size(); ++group) {
    if (row >= begin && row < ends[group]) return static_cast<int64_t>(group);
    begin = std::max(begin, ends[group]);
  }
  return -1;
}

// x [R, K] by w [E, N, K].
inline Matrix by_groups(const Tensor& x, const Tensor& w, const Ends& ends) {
  const int64_t rows = x.shape()[0], inner = x.shape()[1], columns = w.shape()[1];
  Matrix result(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(columns)));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t group = group_of(row, ends);
    for (int64_t column = 0; column < columns && group >= 0; ++column)
      for (int64_t k = 0; k < inner; ++k)
        result[static_cast<size_t>(row)][static_cast<size_t>(column)] +=
            x.number_at(row * inner + k) * w.number_at((group * columns + column) * inner + k);
  }
  return result;
}

inline void expect_near(const Tensor& got, const Matrix& want, double tolerance) {
  int64_t at = 0;
  for (const auto& row : want)
    for (const double value : row) {
      const double found = got.number_at(at++);
      ASSERT_LE(std::fabs(found - value), tolerance * (1 + std::fabs(value)))
          << "element " << at - 1 << " is " << found << ", not " << value;
    }
  EXPECT_EQ(at, got.size());
}

// Where groups end among `rows` rows: even, empty ones, one huge, all rows in one, bad ones.
inline std::vector<Ends> ends_among(int64_t rows) {
  std::mt19937_64 random(static_cast<uint64_t>(rows));
  Ends drawn;
  for (int64_t i = 0; i < kGroups; ++i)
    drawn.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(rows + 1)));
  Ends sorted = drawn;
  std::sort(sorted.begin(), sorted.end());
  return {{rows / 5, 2 * rows / 5, 3 * rows / 5, 4 * rows / 5, rows},
          {0, rows, rows, rows, rows},
          {rows, rows, rows, rows, rows},
          {0, 0, rows - 1, rows - 1, rows},
          {0, 0, 0, 0, 0},
          {rows / 3, rows / 3, rows / 2, rows / 2, rows / 2},
          sorted,
          drawn,
          {rows, rows - 2, 1, 0, -4},
          {-7, rows / 2, 3 * rows, rows, 2 * rows}};
}

inline Tensor run_one(const std::string& text, const ir::Bindings& inputs,
                      const ir::Bindings& weights = {}, int threads = 2) {
  const auto compiled =
      compile(parse(text), Target::cpu(), {.cpu = {.threads = threads, .weights = weights}});
  EXPECT_TRUE(compiled) << (compiled ? "" : to_string(compiled.error()));
  auto results = compiled->run(inputs);
  EXPECT_TRUE(results) << (results ? "" : to_string(results.error()));
  return std::move(results->front());
}

inline Tensor tensor_of(const Ends& ends) {
  return Tensor::of(DType::S32, {static_cast<int64_t>(ends.size())},
                    std::vector<double>(ends.begin(), ends.end()));
}

}  // namespace attacca::run::grouped
