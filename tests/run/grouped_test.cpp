// Grouped products and what follows them on the CPU, against a loop over groups in f64.
#include <functional>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "fuse/explain/explain.hpp"
#include "run/check/compare.hpp"
#include "run/check/random_inputs.hpp"
#include "run/grouped_reference.hpp"

namespace attacca::run {
namespace {

using namespace grouped;

struct Shapes {
  int64_t rows;
  DType dtype;
};

TEST(Grouped, ProductsOfRandomGroups) {
  for (const auto& [rows, dtype] : {Shapes{0, DType::F32},
                                    {1, DType::F32},
                                    {7, DType::BF16},
                                    {64, DType::F32},
                                    {301, DType::BF16},
                                    {301, DType::F16}}) {
    const Tensor x = normal(dtype, {rows, kInner}, 1);
    const Tensor w = normal(dtype, {kGroups, kColumns, kInner}, 2);
    const std::string type(ir::name(dtype));
    const std::string text = fmt::format(
        "graph g(x: {0}[R, 24], w: {0}[5, 12, 24], o: s32[5]) {{ return y = "
        "grouped_matmul(x, transpose(w), o, out=f32) }}",
        type);
    for (const Ends& ends : ends_among(rows)) {
      SCOPED_TRACE(fmt::format("{} rows of {}, ends {}", rows, type, fmt::join(ends, ",")));
      const Matrix want = by_groups(x, w, ends);
      expect_near(run_one(text, {{"x", x}, {"w", w}, {"o", tensor_of(ends)}}), want, 1e-5);
      expect_near(run_one(text, {{"x", x}, {"o", tensor_of(ends)}}, {{"w", w}}), want, 1e-5);
    }
  }
}

Tensor scaled(const Tensor& q, const Tensor& scales, int64_t block_rows) {
  const std::vector<int64_t>& shape = q.shape();
  const int64_t lines = shape[shape.size() - 2], inner = shape.back();
  Tensor made = *Tensor::make(DType::F64, shape);
  const auto blocks = [](int64_t extent, int64_t block) { return (extent + block - 1) / block; };
  const int64_t across = blocks(inner, 128), each = blocks(lines, block_rows) * across;
  for (int64_t i = 0; i < q.size(); ++i) {
    const int64_t group = i / (lines * inner), line = i / inner % lines;
    made.set_number(i, q.number_at(i) * scales.number_at(group * each + line / block_rows * across +
                                                         i % inner / 128));
  }
  return made;
}

// As DeepSeek-V3's experts: 8-bit floats, a scale for each 128 values of a row and each 128 x 128
// of a matrix. Neither 200 columns nor 320 values of k are whole blocks.
TEST(Grouped, ScaledBlocks) {
  const std::string text =
      "graph g(x: f8e4m3[R, 320], s: f32[R, 3], w: f8e4m3[5, 200, 320], t: f32[5, 2, 3], "
      "o: s32[5]) { return grouped_matmul(scale_blocks(x, s, [1, 128]), "
      "transpose(scale_blocks(w, t, [1, 128, 128])), o) }";
  const Tensor w = normal(DType::F8E4M3, {kGroups, 200, 320}, 2),
               t = normal(DType::F32, {kGroups, 2, 3}, 4);
  for (const int64_t rows : {0, 1, 83}) {
    const Tensor x = normal(DType::F8E4M3, {rows, 320}, 1), s = normal(DType::F32, {rows, 3}, 3);
    for (const Ends& ends : ends_among(rows)) {
      SCOPED_TRACE(fmt::format("{} rows, ends {}", rows, fmt::join(ends, ",")));
      const Matrix want = by_groups(scaled(x, s, 1), scaled(w, t, 128), ends);
      expect_near(run_one(text, {{"x", x}, {"s", s}, {"w", w}, {"t", t}, {"o", tensor_of(ends)}}),
                  want, 1e-3);
    }
  }
}

// A wide product, whose columns are several blocks, and groups of more rows than a tile.
TEST(Grouped, ManyTiles) {
  const int64_t rows = 700;
  const Tensor x = normal(DType::F32, {rows, 16}, 1), w = normal(DType::F32, {3, 600, 16}, 2);
  const Ends ends = {600, 600, 690};
  expect_near(
      run_one("graph g(x: f32[R, 16], w: f32[3, 600, 16], o: s32[3]) { return "
              "grouped_matmul(x, transpose(w), o) + 1 }",
              {{"x", x}, {"w", w}, {"o", tensor_of(ends)}}),
      [&] {
        Matrix want = by_groups(x, w, ends);
        for (auto& row : want)
          for (double& value : row) value += 1;
        return want;
      }(),
      1e-5);
}

struct Tail {
  const char* name;
  const char* body;
  // Of the product's columns, [R, 12], and the row.
  std::function<std::vector<double>(const std::vector<double>&, int64_t)> want;
};

double silu(double x) {
  return x / (1 + std::exp(-x));
}

// Row, column and full operands have the values 0.1 * column, 0.5 * row and row - column.
TEST(Grouped, TailsJoinTheProduct) {
  const auto gate = [](int64_t at, int64_t step, int64_t up) {
    return [=](const std::vector<double>& acc, int64_t) {
      std::vector<double> result;
      for (int64_t i = 0; i < 6; ++i)
        result.push_back(silu(acc[static_cast<size_t>(at + i * step)]) *
                         acc[static_cast<size_t>(up + i * step)]);
      return result;
    };
  };
  const Tail tails[] = {
      {"operands", "y * column + row - full",
       [](const std::vector<double>& acc, int64_t row) {
         std::vector<double> result;
         for (int64_t i = 0; i < kColumns; ++i)
           result.push_back(acc[static_cast<size_t>(i)] * 0.5 * static_cast<double>(row) +
                            0.1 * static_cast<double>(i) - static_cast<double>(row - i));
         return result;
       }},
      {"packed halves", "silu(y[:, 0:6]) * y[:, 6:12]", gate(0, 1, 6)},
      {"alternate columns", "silu(y[:, 0:12:2]) * y[:, 1:12:2]", gate(0, 2, 1)},
      {"cast", "cast(cast(relu(y), bf16), f32)",
       [](const std::vector<double>& acc, int64_t) {
         std::vector<double> result;
         for (const double x : acc) result.push_back(x < 0 ? 0 : x);
         return result;
       }},
  };
  const int64_t rows = 83;
  const Tensor x = normal(DType::F32, {rows, kInner}, 3);
  const Tensor w = normal(DType::F32, {kGroups, kColumns, kInner}, 4);
  Tensor row = *Tensor::make(DType::F32, {kColumns}), column = *Tensor::make(DType::F32, {rows, 1}),
         full = *Tensor::make(DType::F32, {rows, kColumns});
  for (int64_t i = 0; i < kColumns; ++i) row.set_number(i, 0.1 * static_cast<double>(i));
  for (int64_t i = 0; i < rows; ++i) column.set_number(i, 0.5 * static_cast<double>(i));
  for (int64_t i = 0; i < full.size(); ++i)
    full.set_number(i, static_cast<double>(i / kColumns - i % kColumns));
  for (const Tail& tail : tails) {
    SCOPED_TRACE(tail.name);
    const std::string text = fmt::format(
        "graph g(x: f32[R, 24], w: f32[5, 12, 24], o: s32[5], row: f32[12], column: f32[R, 1], "
        "full: f32[R, 12]) {{ y = grouped_matmul(x, transpose(w), o)\n return {} }}",
        tail.body);
    const auto prepared = prepare(parse(text), Target::cpu());
    ASSERT_TRUE(prepared) << to_string(prepared.error());
    EXPECT_EQ(prepared->partition->regions.size(), 1U) << fuse::explain_text(*prepared->partition);
    for (const Ends& ends : ends_among(rows)) {
      Matrix want;
      int64_t at = 0;
      for (const auto& acc : by_groups(x, w, ends)) want.push_back(tail.want(acc, at++));
      expect_near(run_one(text, {{"x", x},
                                 {"w", w},
                                 {"o", tensor_of(ends)},
                                 {"row", row},
                                 {"column", column},
                                 {"full", full}}),
                  want, std::string(tail.name) == "cast" ? 0.01 : 1e-4);
    }
  }
}

// A gate of two weights is one region with two accumulators; of other groups it is not.
TEST(Grouped, GatesOfTwoWeights) {
  const auto text = [](const char* ends) {
    return fmt::format(
        "graph g(x: f32[R, 24], w: f32[5, 12, 24], v: f32[5, 12, 24], o: s32[5], p: s32[5]) {{\n"
        "  return silu(grouped_matmul(x, transpose(w), o)) * grouped_matmul(x, transpose(v), {})\n"
        "}}",
        ends);
  };
  const Tensor x = normal(DType::F32, {40, kInner}, 3);
  const Tensor w = normal(DType::F32, {kGroups, kColumns, kInner}, 4);
  const Tensor v = normal(DType::F32, {kGroups, kColumns, kInner}, 5);
  const Ends first = {3, 3, 20, 31, 40}, second = {40, 40, 40, 40, 40};
  for (const bool same : {true, false}) {
    const auto prepared = prepare(parse(text(same ? "o" : "p")), Target::cpu());
    ASSERT_TRUE(prepared);
    const auto& regions = prepared->partition->regions;
    EXPECT_EQ(regions.size(), same ? 1U : 2U) << fuse::explain_text(*prepared->partition);
    EXPECT_EQ(regions.back().kind, same ? fuse::RegionKind::GatedGemm : fuse::RegionKind::Gemm);
    Matrix want = by_groups(x, w, first);
    const Matrix up = by_groups(x, v, same ? first : second);
    for (size_t i = 0; i < want.size(); ++i)
      for (size_t j = 0; j < want[i].size(); ++j) want[i][j] = silu(want[i][j]) * up[i][j];
    expect_near(
        run_one(text(same ? "o" : "p"),
                {{"x", x}, {"w", w}, {"v", v}, {"o", tensor_of(first)}, {"p", tensor_of(second)}}),
        want, 1e-4);
  }
}

TEST(Grouped, ComputedOffsetsAndReductions) {
  const Tensor x = normal(DType::F32, {40, kInner}, 3);
  const Tensor w = normal(DType::F32, {kGroups, kInner, kColumns}, 4);
  const std::string text =
      "graph g(x: f32[R, 24], w: f32[5, 24, 12], counts: s64[5, 2]) {\n"
      "  y = relu(grouped_matmul(x, w, cast(reshape(counts[:, 1:2], [5]), s32)))\n"
      "  return y, sum(y, axes=[1])\n}";
  Tensor counts = *Tensor::make(DType::S64, {5, 2});
  const Ends ends = {4, 4, 11, 30, 40};
  for (int64_t i = 0; i < 5; ++i) counts.set_integer(2 * i + 1, ends[static_cast<size_t>(i)]);
  const auto graph = parse(text);
  const ir::Bindings inputs = {{"x", x}, {"w", w}, {"counts", counts}};
  const auto compiled = compile(graph, Target::cpu());
  ASSERT_TRUE(compiled);
  const auto results = compiled->run(inputs);
  ASSERT_TRUE(results) << to_string(results.error());
  Matrix want = by_groups(
      x,
      [&] {  // [E, N, K]
        Tensor moved = *Tensor::make(DType::F32, {kGroups, kColumns, kInner});
        for (int64_t i = 0; i < moved.size(); ++i)
          moved.set_number(i, w.number_at((i / 288 * 24 + i % 24) * 12 + i / 24 % 12));
        return moved;
      }(),
      ends);
  Matrix sums;
  for (auto& row : want) {
    double sum = 0;
    for (double& value : row) sum += value = std::max(value, 0.0);
    sums.push_back({sum});
  }
  expect_near((*results)[0], want, 1e-5);
  expect_near((*results)[1], sums, 1e-4);
}

// The bound of --check allows what the executor computes, and not a row of another group.
TEST(Grouped, BoundOfCheck) {
  const auto graph = parse(
      "graph g(x: bf16[R, 64], w: bf16[5, 64, 8], o: s32[5], s: f32[R, 1]) {\n"
      "  return gelu(grouped_matmul(x, w, o)) * s\n}");
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const ir::Bindings inputs = *random_inputs(graph, {{"R", 50}}, seed, {});
    const Tensor& offsets = inputs.at("o");
    for (int64_t i = 0; i + 1 < 5; ++i) EXPECT_LE(offsets.integer_at(i), offsets.integer_at(i + 1));
    const auto compiled = compile(graph, Target::cpu());
    ASSERT_TRUE(compiled);
    const Tensor got = std::move(compiled->run(inputs)->front());
    const Bounded bound = std::move(error_bounds(graph, inputs, {})->front());
    int64_t outside = 0;
    for (int64_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(bound.allows(i, got.number_at(i))) << i;
      outside += !bound.allows(i, got.number_at((i + 8) % got.size()));
    }
    EXPECT_GT(outside, 200);
  }
}

// A device without kernels for groups computes the product on its own, and explain says why.
TEST(Grouped, AloneWhereKernelsAreMissing) {
  const auto graph = parse(
      "graph g(x: bf16[R, 64], w: bf16[5, 64, 8], o: s32[5]) {\n"
      "  g = grouped_matmul(x, w, o)\n  return y = relu(g)\n}");
  fuse::FuseOptions options;
  options.grouped = false;
  const fuse::Partition partition = fuse::partition(graph, options);
  ASSERT_TRUE(fuse::verify(partition));
  ASSERT_EQ(partition.regions.size(), 2U);
  EXPECT_EQ(partition.regions[0].kind, fuse::RegionKind::Single);
  EXPECT_EQ(partition.regions[1].kind, fuse::RegionKind::Pointwise);
  EXPECT_NE(
      fuse::explain_text(partition).find("no kernel that computes ops after a grouped product"),
      std::string::npos)
      << fuse::explain_text(partition);
}

}  // namespace
}  // namespace attacca::run
