// Layers of experts on the CPU: rows that a product gathers, biases of the row's group, rows that
// are added to tokens, and weights in MXFP4; against loops in f64.
#include "fmt/format.h"

#include "fuse/explain/explain.hpp"
#include "run/check/compare.hpp"
#include "run/check/random_inputs.hpp"
#include "run/grouped_reference.hpp"

namespace attacca::run {
namespace {

using namespace grouped;

constexpr int64_t kTokens = 13;

Tensor integers(DType dtype, const std::vector<int64_t>& values) {
  return Tensor::of(dtype, {static_cast<int64_t>(values.size())},
                    std::vector<double>(values.begin(), values.end()));
}

// A token for each row, in no order, some of them counted from the end.
std::vector<int64_t> tokens_of(int64_t rows) {
  std::mt19937_64 random(static_cast<uint64_t>(rows) + 7);
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < rows; ++i)
    tokens.push_back(static_cast<int64_t>(random() % (2 * kTokens)) - kTokens);
  return tokens;
}

Tensor rows_of(const Tensor& x, const std::vector<int64_t>& rows) {
  const int64_t extent = x.shape()[0], columns = x.shape()[1];
  Tensor made = *Tensor::make(x.dtype(), {static_cast<int64_t>(rows.size()), columns});
  for (int64_t i = 0; i < made.size(); ++i) {
    const int64_t row = rows[static_cast<size_t>(i / columns)];
    made.set_number(i, x.number_at((row < 0 ? row + extent : row) * columns + i % columns));
  }
  return made;
}

Matrix added(const Tensor& base, const std::vector<int64_t>& rows, const Matrix& updates) {
  const int64_t extent = base.shape()[0], columns = base.shape()[1];
  Matrix sums(static_cast<size_t>(extent));
  for (int64_t i = 0; i < base.size(); ++i)
    sums[static_cast<size_t>(i / columns)].push_back(base.number_at(i));
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t row = rows[i] < 0 ? rows[i] + extent : rows[i];
    for (size_t column = 0; column < static_cast<size_t>(columns); ++column)
      sums[static_cast<size_t>(row)][column] += updates[i][column];
  }
  return sums;
}

fuse::Partition partition_of(const std::string& text) {
  const auto prepared = prepare(parse(text), Target::cpu());
  EXPECT_TRUE(prepared) << to_string(prepared.error());
  EXPECT_TRUE(fuse::verify(*prepared->partition));
  return *prepared->partition;
}

void expect_regions(const std::string& text, size_t count) {
  const fuse::Partition partition = partition_of(text);
  EXPECT_EQ(partition.regions.size(), count) << fuse::explain_text(partition);
}

TEST(ExpertRows, ProductsGatherTheirRows) {
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16})
    for (const DType index : {DType::S32, DType::S64}) {
      const std::string text = fmt::format(
          "graph g(x: {0}[T, 24], token: {1}[R], w: {0}[5, 12, 24], o: s32[5]) {{ return y = "
          "relu(grouped_matmul(gather(x, token), transpose(w), o, out=f32)) }}",
          name(dtype), name(index));
      expect_regions(text, 1);
      const Tensor x = normal(dtype, {kTokens, kInner}, 1);
      const Tensor w = normal(dtype, {kGroups, kColumns, kInner}, 2);
      for (const int64_t rows : {0, 1, 7, 301}) {
        const std::vector<int64_t> tokens = tokens_of(rows);
        for (const Ends& ends : ends_among(rows)) {
          Matrix want = by_groups(rows_of(x, tokens), w, ends);
          for (auto& row : want)
            for (double& value : row) value = std::max(value, 0.0);
          expect_near(
              run_one(
                  text,
                  {{"x", x}, {"token", integers(index, tokens)}, {"w", w}, {"o", tensor_of(ends)}}),
              want, 1e-5);
        }
      }
    }
}

// A plain product gathers too, from a view of its operand by a part of its index.
TEST(ExpertRows, ViewsOfTokensAndIndices) {
  const std::string text =
      "graph g(x: f32[24, 26], token: s64[40, 2], w: f32[24, 12]) {\n"
      "  return y = gather(transpose(x[:, ::2]), reshape(token[:, 1:], [40])) @ w + 1\n}";
  expect_regions(text, 1);
  const Tensor x = normal(DType::F32, {24, 26}, 1), w = normal(DType::F32, {24, 12}, 2);
  const std::vector<int64_t> tokens = tokens_of(40);
  Tensor index = *Tensor::make(DType::S64, {40, 2});
  Matrix want;
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t token = tokens[static_cast<size_t>(i)];
    index.set_integer(2 * i + 1, token);
    auto& row = want.emplace_back(12, 1.0);
    for (int64_t column = 0; column < 12; ++column)
      for (int64_t k = 0; k < 24; ++k)
        row[static_cast<size_t>(column)] +=
            x.number_at(k * 26 + 2 * ((token + 13) % 13)) * w.number_at(k * 12 + column);
  }
  expect_near(run_one(text, {{"x", x}, {"token", index}, {"w", w}}), want, 1e-4);
}

// Rows of rows are one gather, by an index of indices; what the graph returns stays.
TEST(ExpertRows, RowsOfRows) {
  const std::string text =
      "graph g(x: f32[T, 24], token: s64[S], order: s32[R], w: f32[5, 12, 24], o: s32[5]) {\n"
      "  rows = gather(gather(x, token), order)\n"
      "  return y = relu(grouped_matmul(rows, transpose(w), o))\n}";
  expect_regions(text, 2);  // the other is of the index
  const Tensor x = normal(DType::F32, {kTokens, kInner}, 1);
  const Tensor w = normal(DType::F32, {kGroups, kColumns, kInner}, 2);
  const std::vector<int64_t> tokens = tokens_of(20), order = {19, 0, -1, 7, 7, -20, 3};
  std::vector<int64_t> chosen;
  for (const int64_t at : order)
    chosen.push_back(tokens[static_cast<size_t>(at < 0 ? at + 20 : at)]);
  for (const Ends& ends : ends_among(7)) {
    Matrix want = by_groups(rows_of(x, chosen), w, ends);
    for (auto& row : want)
      for (double& value : row) value = std::max(value, 0.0);
    expect_near(run_one(text, {{"x", x},
                               {"token", integers(DType::S64, tokens)},
                               {"order", integers(DType::S32, order)},
                               {"w", w},
                               {"o", tensor_of(ends)}}),
                want, 1e-5);
  }
}

// GPT-OSS's: biases of the row's expert, and a gate of alternate columns.
TEST(ExpertRows, BiasesOfTheRowsGroup) {
  for (const char* gate : {"clamp(h[:, ::2], max=1) * h[:, 1::2]", "clamp(h, max=1) * 2",
                           "h[:, 0:6] * (h[:, 6:12] + 1)"}) {
    const std::string text = fmt::format(
        "graph g(x: f32[R, 24], w: f32[5, 24, 12], b: bf16[5, 12], expert: s64[R], s: f32[5, 1],\n"
        "        o: s32[5]) {{\n"
        "  h = grouped_matmul(x, w, o) + gather(b, expert)\n"
        "  return y = ({}) * gather(s, expert)\n}}",
        gate);
    SCOPED_TRACE(text);
    expect_regions(text, 1);
    const auto graph = parse(text);
    for (const int64_t rows : {0, 1, 83})
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const ir::Bindings inputs = *random_inputs(graph, {{"R", rows}}, seed, {});
        const Tensor got = run_one(text, inputs);
        const auto exact =
            ir::interpret(graph, inputs, {.precision = ir::Precision::Exact, .accumulators = {}});
        ASSERT_TRUE(exact) << to_string(exact.error());
        for (int64_t i = 0; i < got.size(); ++i)
          ASSERT_NEAR(got.number_at(i), (*exact)[0].number_at(i), 1e-4) << i;
      }
  }
}

// The same where the offsets of the product choose the bias: a row for each group, which no index
// reads. Some rows belong to no group, and ends descend.
TEST(ExpertRows, BiasesByGroup) {
  for (const char* gate : {"h", "clamp(h[:, ::2], max=1) * h[:, 1::2]",
                           "h[:, 0:6] * (h[:, 6:12] + 1)", "cast(h, bf16)"}) {
    const std::string text = fmt::format(
        "graph g(x: f32[R, 24], w: f32[5, 24, 12], b: bf16[5, 12], s: f32[5, 1], v: f32[9, 30],\n"
        "        o: s32[5], t: f32[R, 1]) {{\n  e = group_ids(o, [R])\n"
        "  h = (grouped_matmul(x, w, o) + gather(b, e)) * gather(s, e) +\n"
        "      gather(v[4:9, 3:27:2], e)\n"
        "  return y = ({}) * t\n}}",
        gate);
    SCOPED_TRACE(text);
    const fuse::Partition partition = partition_of(text);
    EXPECT_EQ(partition.regions.size(), 1U) << fuse::explain_text(partition);
    EXPECT_TRUE(epilogue::reads_by_group(partition.regions[0].epilogue));
    EXPECT_TRUE(epilogue::indexed_inputs(partition.regions[0].epilogue).empty());
    const auto graph = parse(text);
    for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager})
      for (const int64_t rows : {0, 1, 83, 700})
        for (const Ends& ends : ends_among(rows)) {
          ir::Bindings inputs = *random_inputs(graph, {{"R", rows}}, 3, {});
          inputs.insert_or_assign("o", tensor_of(ends));
          const auto plan = compile(graph, Target::cpu(mode));
          ASSERT_TRUE(plan) << to_string(plan.error());
          const auto got = plan->run(inputs);
          ASSERT_TRUE(got) << to_string(got.error());
          const auto precision =
              mode == ir::Mode::Eager ? ir::Precision::Eager : ir::Precision::Exact;
          const auto exact =
              ir::interpret(graph, inputs, {.precision = precision, .accumulators = {}});
          ASSERT_TRUE(exact) << to_string(exact.error());
          ASSERT_EQ((*got)[0].size(), (*exact)[0].size());
          for (int64_t i = 0; i < (*exact)[0].size(); ++i) {
            const double want = (*exact)[0].number_at(i);
            ASSERT_NEAR((*got)[0].number_at(i), want, 0.01 + 0.02 * std::fabs(want)) << i;
          }
        }
  }
}

TEST(ExpertRows, NoGroupHasABias) {
  const std::string text =
      "graph g(x: f32[R, 4], w: f32[E, 4, 8], b: f32[E, 8], o: s32[E]) {\n"
      "  return y = grouped_matmul(x, w, o) + gather(b, group_ids(o, [R]))\n}";
  const auto plan = compile(parse(text), Target::cpu());
  ASSERT_TRUE(plan) << to_string(plan.error());
  const auto run = [&](int64_t rows) {
    return plan->run({{"x", normal(DType::F32, {rows, 4}, 1)},
                      {"w", *Tensor::make(DType::F32, {0, 4, 8})},
                      {"b", *Tensor::make(DType::F32, {0, 8})},
                      {"o", *Tensor::make(DType::S32, {0})}});
  };
  EXPECT_TRUE(run(0));
  const auto failed = run(3);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().what, "gather index 0 is outside an axis of 0");
}

// 8-bit floats with a scale for each row and for each column of each expert's matrix, which the
// offsets choose: PyTorch's _scaled_grouped_mm.
TEST(ExpertRows, ScalesOfTheRowsGroup) {
  const std::string text =
      "graph g(x: f8e4m3[R, 24], w: f8e4m3[5, 12, 24], o: s32[5], s: f32[R], t: f32[5, 12]) {\n"
      "  y = grouped_matmul(x, transpose(w), o, out=f32) * reshape(s, [R, 1])\n"
      "  return y = cast(y * gather(t, group_ids(o, [R])), bf16)\n}";
  expect_regions(text, 1);
  const Tensor w = normal(DType::F8E4M3, {kGroups, kColumns, kInner}, 2);
  const Tensor t = normal(DType::F32, {kGroups, kColumns}, 4);
  for (const int64_t rows : {0, 1, 83}) {
    const Tensor x = normal(DType::F8E4M3, {rows, kInner}, 1), s = normal(DType::F32, {rows}, 3);
    for (const Ends& ends : ends_among(rows)) {
      Matrix want = by_groups(x, w, ends);
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t group = std::max<int64_t>(group_of(row, ends), 0);  // of none: 0 already
        for (int64_t n = 0; n < kColumns; ++n)
          want[static_cast<size_t>(row)][static_cast<size_t>(n)] *=
              s.number_at(row) * t.number_at(group * kColumns + n);
      }
      expect_near(run_one(text, {{"x", x}, {"w", w}, {"o", tensor_of(ends)}, {"s", s}, {"t", t}}),
                  want, 0.01);
    }
  }
}

// The rows' products times their weights are added to their tokens, by any number of threads alike.
TEST(ExpertRows, RowsAreAddedToTokens) {
  const std::string text =
      "graph g(x: f32[R, 24], w: f32[5, 12, 24], o: s32[5], weight: f32[R, 1], token: s64[R],\n"
      "        base: f32[T, 12]) {\n"
      "  return y = scatter_add(base, token, grouped_matmul(x, transpose(w), o) * weight)\n}";
  expect_regions(text, 1);
  const Tensor w = normal(DType::F32, {kGroups, kColumns, kInner}, 2);
  const Tensor base = normal(DType::F32, {kTokens, kColumns}, 5);
  for (const int64_t rows : {0, 1, 83, 301}) {
    const Tensor x = normal(DType::F32, {rows, kInner}, 1),
                 weight = normal(DType::F32, {rows, 1}, 3);
    const std::vector<int64_t> tokens = tokens_of(rows);
    for (const Ends& ends : ends_among(rows)) {
      Matrix scaled = by_groups(x, w, ends);
      for (int64_t row = 0; row < rows; ++row)
        for (double& value : scaled[static_cast<size_t>(row)]) value *= weight.number_at(row);
      const ir::Bindings inputs = {
          {"x", x},           {"w", w},       {"o", tensor_of(ends)},
          {"weight", weight}, {"base", base}, {"token", integers(DType::S64, tokens)}};
      const Tensor got = run_one(text, inputs);
      expect_near(got, added(base, tokens, scaled), 1e-4);
      const Tensor alone = run_one(text, inputs, {}, 1), many = run_one(text, inputs, {}, 5);
      EXPECT_EQ(std::memcmp(got.data(), alone.data(), static_cast<size_t>(got.bytes())), 0);
      EXPECT_EQ(std::memcmp(got.data(), many.data(), static_cast<size_t>(got.bytes())), 0);
    }
  }
}

// What the region stores beside the sums, and sums to which another region adds.
TEST(ExpertRows, SeveralResults) {
  const std::string text =
      "graph g(x: bf16[R, 24], w: bf16[24, 12], token: s32[R], base: bf16[T, 12]) {\n"
      "  h = x @ w\n  y = silu(h)\n  sums = scatter_add(base, token, y)\n"
      "  return y, sums, twice = scatter_add(sums, token, h)\n}";
  const auto graph = parse(text);
  for (const ir::Mode mode : {ir::Mode::Fp32, ir::Mode::Eager}) {
    const ir::Bindings inputs = *random_inputs(graph, {{"R", 50}, {"T", kTokens}}, 1, {});
    const auto compiled = compile(graph, Target::cpu(mode), {.cpu = {.threads = 2, .weights = {}}});
    ASSERT_TRUE(compiled) << to_string(compiled.error());
    const auto got = compiled->run(inputs);
    ASSERT_TRUE(got) << to_string(got.error());
    const auto bounds = error_bounds(graph, inputs, {.mode = mode});
    ASSERT_TRUE(bounds) << to_string(bounds.error());
    for (size_t result = 0; result < got->size(); ++result) {
      int64_t outside = 0;
      const Tensor& values = (*got)[result];
      for (int64_t i = 0; i < values.size(); ++i) {
        EXPECT_TRUE((*bounds)[result].allows(i, values.number_at(i))) << result << ", " << i;
        outside += !(*bounds)[result].allows(i, values.number_at((i + 1) % values.size()));
      }
      EXPECT_GT(outside, values.size() / 2);
    }
  }
}

// An index outside its axis is an error, whether the op joined a region or not.
TEST(ExpertRows, IndicesOutsideTheAxis) {
  struct Case {
    const char* body;
    const char* what;
  };
  const Case cases[] = {
      {"gather(x, i) @ w + 1", "gather index {} is outside an axis of 9"},
      {"a @ w + gather(b, i)", "gather index {} is outside an axis of 9"},
      {"scatter_add(b, i, relu(a @ w))", "scatter_add index {} is outside an axis of 9"},
      {"scatter_add(b, i, a[:, 0:4])", "scatter_add index {} is outside an axis of 9"},
  };
  for (const Case& each : cases)
    for (const int64_t bad : {int64_t{9}, int64_t{-10}, INT64_MAX, INT64_MIN}) {
      const auto graph = parse(fmt::format(
          "graph g(x: f32[9, 8], a: f32[3, 8], w: f32[8, 4], b: f32[9, 4], i: s64[3]) {{\n"
          "  return {} }}",
          each.body));
      ir::Bindings inputs = *random_inputs(graph, {}, 1, {});
      inputs["i"].set_integer(1, bad);
      const auto compiled = compile(graph, Target::cpu());
      ASSERT_TRUE(compiled) << to_string(compiled.error());
      const auto got = compiled->run(inputs);
      ASSERT_FALSE(got) << each.body;
      EXPECT_EQ(got.error().what, fmt::format(fmt::runtime(each.what), bad));
      EXPECT_FALSE(got.error().where.empty());
    }
}

// What cannot join stays on its own, and says why.
TEST(ExpertRows, Refusals) {
  const auto expect_reason = [&](const char* body, const char* reason) {
    const std::string text = fuse::explain_text(partition_of(
        fmt::format("graph g(x: f32[T, 24], i: s64[R], j: s64[T], w: f32[24, 12], b: f64[T, 12],\n"
                    "        t: f32[T, 2, 12]) {{\n  h = x @ w\n  {}\n}}",
                    body)));
    EXPECT_NE(text.find(reason), std::string::npos) << text;
  };
  expect_reason("return y = scatter_add(h, i, gather(h, i))",
                "y needs the whole of h before its first row");
  expect_reason("return y = scatter_add(b, j, cast(h, f64))",
                "scatter_add adds elements at places known only at run time");
  expect_reason("r = relu(h)\n  return y = scatter_add(r, j, r)",
                "y needs the whole of r before its first row");
  expect_reason("return relu(h), sum(gather(t, i), axes=[0, 1])",
                "gather reads elements at places known only at run time");
}

// The kernels of a GPU read no rows by an index: there the ops are regions of their own.
TEST(ExpertRows, AloneWhereKernelsAreMissing) {
  const auto graph = parse(
      "graph g(x: bf16[T, 64], token: s64[R], c: u8[5, 32, 32], s: u8[5, 32, 2], o: s32[5],\n"
      "        base: bf16[T, 32]) {\n"
      "  h = relu(grouped_matmul(gather(x, token), transpose(mxfp4(c, s)), o))\n"
      "  return y = scatter_add(base, token, h)\n}");
  const fuse::Partition partition = fuse::partition(graph, {.quantized_operands = true});
  ASSERT_TRUE(fuse::verify(partition));
  const std::string text = fuse::explain_text(partition);
  ASSERT_EQ(partition.regions.size(), 4U) << text;
  for (const char* reason : {"gather reads elements at places known only at run time",
                             "scatter_add adds elements at places known only at run time",
                             "no kernel here widens these mxfp4 weights on their way to their "
                             "product"})
    EXPECT_NE(text.find(reason), std::string::npos) << text;
}

// Weights of random codes and scales; none overflows.
Tensor random_bytes(const std::vector<int64_t>& shape, int64_t first, int64_t count,
                    uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensor made = *Tensor::make(DType::U8, shape);
  for (int64_t i = 0; i < made.size(); ++i)
    made.set_integer(i, first + static_cast<int64_t>(random() % static_cast<uint64_t>(count)));
  return made;
}

// The format's own table, written out.
Tensor widened(const Tensor& codes, const Tensor& scales, const std::vector<int64_t>& shape) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
  Tensor made = *Tensor::make(DType::F32, shape);
  for (int64_t i = 0; i < made.size(); ++i) {
    const auto byte = static_cast<uint64_t>(codes.integer_at(i / 2));
    const double value = kValues[i % 2 == 0 ? byte % 16 : byte / 16];
    made.set_number(i, value * std::pow(2.0, static_cast<double>(scales.integer_at(i / 32)) - 127));
  }
  return made;
}

TEST(ExpertRows, WeightsInMxFp4) {
  constexpr int64_t kDepth = 64, kWide = 10;
  const std::string plain =
      "graph g(x: bf16[R, 64], c: u8[5, 10, 32], s: u8[5, 10, 2], o: s32[5]) {\n"
      "  y = grouped_matmul(x, transpose(mxfp4(c, s)), o, out=f32)\n  return z = y * 1\n}";
  const std::string blocks =
      "graph g(x: bf16[R, 64], c: u8[5, 10, 2, 16], s: u8[5, 10, 2], o: s32[5]) {\n"
      "  w = mxfp4(reshape(c, [5, 10, 32]), s)\n"
      "  y = grouped_matmul(x, transpose(w), o, out=f32)\n  return z = y * 1\n}";
  const Tensor codes = random_bytes({kGroups, kWide, kDepth / 2}, 0, 256, 1);
  const Tensor scales = random_bytes({kGroups, kWide, kDepth / 32}, 120, 12, 2);
  const Tensor w = widened(codes, scales, {kGroups, kWide, kDepth});
  Tensor shipped = *Tensor::make(DType::U8, {kGroups, kWide, 2, 16});
  std::memcpy(shipped.data(), codes.data(), static_cast<size_t>(codes.bytes()));
  for (const std::string& text : {plain, blocks}) {
    expect_regions(text, 1);
    const Tensor& c = text == plain ? codes : shipped;
    for (const int64_t rows : {0, 1, 83, 301}) {
      const Tensor x = normal(DType::BF16, {rows, kDepth}, 3);
      for (const Ends& ends : ends_among(rows)) {
        const Matrix want = by_groups(x, w, ends);
        const ir::Bindings given = {{"x", x}, {"o", tensor_of(ends)}};
        ir::Bindings all = given;
        all.insert({{"c", c}, {"s", scales}});
        expect_near(run_one(text, all), want, 1e-3);
        expect_near(run_one(text, given, {{"c", c}, {"s", scales}}), want, 1e-3);
      }
    }
  }
}

// Integers of 4 and 8 bits, signed and not, with zero points and without, in blocks and rows.
TEST(ExpertRows, WeightsInIntegers) {
  constexpr int64_t kDepth = 64, kWide = 10, kRows = 83;
  for (const int64_t bits : {4, 8})
    for (const int64_t blocks : {1, 2})
      for (const int kind : {0, 1, 2}) {
        const bool is_signed = kind == 0, zeros = kind == 2;
        const char* const codes_dtype = is_signed ? "s8" : "u8";
        const std::string text = fmt::format(
            "graph g(x: bf16[R, 64], c: {0}[5, 10, {1}], s: f16[5, 10, {2}], z: u8[5, 10, {2}], "
            "o: s32[5]) {{\n"
            "  w = decode(c, s{3}, bits={4}, dtype=f32{5})\n"
            "  y = grouped_matmul(cast(x, f32), transpose(w), o)\n  return y * 1\n}}",
            codes_dtype, kDepth * bits / 8, blocks, zeros ? ", z" : "", bits,
            kind == 1 ? ", zero=5" : "");
        SCOPED_TRACE(text);
        std::mt19937_64 random(static_cast<uint64_t>(bits + blocks + kind));
        Tensor codes =
            *Tensor::make(is_signed ? DType::S8 : DType::U8, {kGroups, kWide, kDepth * bits / 8});
        for (int64_t i = 0; i < codes.size(); ++i)
          codes.set_integer(i, static_cast<int64_t>(random() % 256) - (is_signed ? 128 : 0));
        const Tensor scales = normal(DType::F16, {kGroups, kWide, blocks}, 2);
        const Tensor points = random_bytes({kGroups, kWide, blocks}, 0, 256, 4);
        Tensor w = *Tensor::make(DType::F32, {kGroups, kWide, kDepth});
        for (int64_t i = 0; i < w.size(); ++i) {
          const int64_t byte = codes.integer_at(i * bits / 8) & 255, block = i * blocks / kDepth;
          int64_t code = bits == 8 ? byte : i % 2 == 0 ? byte % 16 : byte / 16;
          if (is_signed && code >= 1 << (bits - 1)) code -= 1 << bits;
          const int64_t zero = zeros ? points.integer_at(block) : kind == 1 ? 5 : 0;
          w.set_number(i, static_cast<double>(code - zero) * scales.number_at(block));
        }
        const Tensor x = normal(DType::BF16, {kRows, kDepth}, 3);
        for (const Ends& ends : ends_among(kRows)) {
          const Matrix want = by_groups(x, w, ends);
          const ir::Bindings given = {{"x", x}, {"o", tensor_of(ends)}};
          const ir::Bindings weights = {{"c", codes}, {"s", scales}, {"z", points}};
          ir::Bindings all = given;
          all.insert(weights.begin(), weights.end());
          expect_near(run_one(text, all), want, 0.02);
          expect_near(run_one(text, given, weights), want, 0.02);
        }
      }
}

// A gate of packed halves, a plain product, and weights that the graph also returns.
TEST(ExpertRows, MxFp4InOtherPlaces) {
  const std::string gate =
      "graph g(x: bf16[R, 64], c: u8[5, 20, 32], s: u8[5, 20, 2], o: s32[5]) {\n"
      "  a, b = split(grouped_matmul(x, transpose(mxfp4(c, s)), o, out=f32), 2)\n"
      "  return y = silu(a) * b\n}";
  const std::string product =
      "graph g(x: bf16[R, 64], c: u8[20, 32], s: u8[20, 2]) {\n"
      "  w = mxfp4(c, s)\n  return y = relu(matmul(x, transpose(w), out=f32)), w\n}";
  const std::string untransposed =
      "graph g(x: bf16[R, 20], c: u8[5, 20, 32], s: u8[5, 20, 2], o: s32[5]) {\n"
      "  return y = relu(grouped_matmul(x, mxfp4(c, s), o, out=f32))\n}";
  expect_regions(gate, 1);
  expect_regions(untransposed, 1);
  for (const std::string& text : {gate, product, untransposed}) {
    SCOPED_TRACE(text);
    const auto graph = parse(text);
    for (const int64_t rows : {1, 40}) {
      const ir::Bindings inputs = *random_inputs(graph, {{"R", rows}}, 1, {});
      const auto compiled = compile(graph, Target::cpu());
      ASSERT_TRUE(compiled) << to_string(compiled.error());
      const auto got = compiled->run(inputs);
      ASSERT_TRUE(got) << to_string(got.error());
      const auto bounds = error_bounds(graph, inputs, {});
      ASSERT_TRUE(bounds) << to_string(bounds.error());
      for (size_t result = 0; result < got->size(); ++result)
        for (int64_t i = 0; i < (*got)[result].size(); ++i)
          ASSERT_TRUE((*bounds)[result].allows(i, (*got)[result].number_at(i)))
              << result << " " << i;
    }
  }
}

// Every scale, also those whose weights are subnormal, infinite or not a number.
TEST(ExpertRows, EveryScaleOfMxFp4) {
  const auto graph = parse("graph g(c: u8[256, 16], s: u8[256, 1]) { return mxfp4(c, s) }");
  Tensor codes = random_bytes({256, 16}, 0, 256, 1), scales = *Tensor::make(DType::U8, {256, 1});
  for (int64_t i = 0; i < 256; ++i) scales.set_integer(i, i);
  const ir::Bindings inputs = {{"c", codes}, {"s", scales}};
  const auto compiled = compile(graph, Target::cpu());
  ASSERT_TRUE(compiled);
  const auto got = compiled->run(inputs);
  const auto want =
      ir::interpret(graph, inputs, {.precision = ir::Precision::Fp32, .accumulators = {}});
  ASSERT_TRUE(got && want);
  EXPECT_EQ(std::memcmp((*got)[0].data(), (*want)[0].data(), 2 * 255 * 32), 0);
  for (int64_t i = 255 * 32; i < 256 * 32; ++i) EXPECT_TRUE(std::isnan((*got)[0].number_at(i)));
}

// The whole layer: gather, product and gate are one region, product, weight and adding another.
TEST(ExpertRows, LayerIsTwoRegions) {
  const std::string text =
      "graph g(x: f32[T, 24], token: s64[R], o: s32[5], weight: f32[R, 1], up: f32[5, 32, 24],\n"
      "        down: f32[5, 24, 16]) {\n"
      "  a, b = split(grouped_matmul(gather(x, token), transpose(up), o), 2)\n"
      "  rows = grouped_matmul(silu(a) * b, transpose(down), o) * weight\n"
      "  return y = scatter_add(broadcast(0.0, [T, 24]), token, rows)\n}";
  expect_regions(text, 2);
  const int64_t rows = 2 * kTokens;
  const Tensor x = normal(DType::F32, {kTokens, 24}, 1), up = normal(DType::F32, {5, 32, 24}, 2),
               down = normal(DType::F32, {5, 24, 16}, 3), weight = normal(DType::F32, {rows, 1}, 4);
  const std::vector<int64_t> tokens = tokens_of(rows);
  for (const Ends& ends : ends_among(rows)) {
    const Matrix projected = by_groups(rows_of(x, tokens), up, ends);
    Tensor inner = *Tensor::make(DType::F64, {rows, 16});
    for (int64_t i = 0; i < inner.size(); ++i) {
      const std::vector<double>& row = projected[static_cast<size_t>(i / 16)];
      const auto column = static_cast<size_t>(i % 16);
      inner.set_number(i, row[column] / (1 + std::exp(-row[column])) * row[column + 16]);
    }
    Matrix scaled = by_groups(inner, down, ends);
    for (int64_t row = 0; row < rows; ++row)
      for (double& value : scaled[static_cast<size_t>(row)]) value *= weight.number_at(row);
    const Tensor zeros = *Tensor::make(DType::F32, {kTokens, 24});
    expect_near(run_one(text, {{"x", x},
                               {"token", integers(DType::S64, tokens)},
                               {"o", tensor_of(ends)},
                               {"weight", weight},
                               {"up", up},
                               {"down", down}}),
                added(zeros, tokens, scaled), 1e-4);
  }
}

}  // namespace
}  // namespace attacca::run
