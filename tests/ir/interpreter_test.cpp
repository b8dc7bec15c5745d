// Reference semantics: text and numbers in, numbers out, in each precision.
#include "ir/interpret/interpreter.hpp"

#include <cmath>
#include <limits>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "ir/graph/semantics.hpp"
#include "ir/text/text.hpp"

namespace attacca::ir {
namespace {

struct Named {
  const char* name;
  Tensor tensor;
};

std::vector<double> run(const std::string& text, const std::vector<Named>& inputs,
                        Precision precision = Precision::Exact) {
  const auto graph = parse_graph(text);
  if (!graph) ADD_FAILURE() << to_string(graph.error());
  if (!graph) return {};
  Bindings bindings;
  for (const auto& [name, tensor] : inputs) bindings.emplace(name, tensor);
  const auto results = interpret(*graph, bindings, {.precision = precision});
  if (!results) ADD_FAILURE() << to_string(results.error());
  if (!results) return {};
  std::vector<double> values;
  for (int64_t i = 0; i < results->front().size(); ++i)
    values.push_back(results->front().number_at(i));
  return values;
}

using Numbers = std::vector<double>;

Tensor f32(std::vector<int64_t> shape, const Numbers& values) {
  return Tensor::of(DType::F32, std::move(shape), values);
}
Tensor bf16(std::vector<int64_t> shape, const Numbers& values) {
  return Tensor::of(DType::BF16, std::move(shape), values);
}

const Tensor kSix = f32({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(Interpreter, Multiplies) {
  EXPECT_EQ(run("graph g(a: f32[2,3], b: f32[3,2]) { return a @ b }",
                {{"a", kSix}, {"b", f32({3, 2}, {1, 0, 0, 1, 1, 1})}}),
            (Numbers{4, 5, 10, 11}));
}

TEST(Interpreter, MultipliesBatchesAndTransposes) {
  EXPECT_EQ(run("graph g(a: f32[2,1,2], b: f32[1,2]) { return a @ transpose(b) }",
                {{"a", f32({2, 1, 2}, {1, 2, 3, 4})}, {"b", f32({1, 2}, {10, 1})}}),
            (Numbers{12, 34}));
}

TEST(Interpreter, MultipliesTheRowsOfGroups) {
  const std::string text =
      "graph g(x: f32[4,1], w: f32[3,1,2], o: s32[3]) { return grouped_matmul(x, w, o) }";
  const Tensor x = f32({4, 1}, {1, 2, 3, 4}), w = f32({3, 1, 2}, {1, 10, 2, 20, 3, 30});
  const auto with = [&](const Numbers& ends) {
    return run(text, {{"x", x}, {"w", w}, {"o", Tensor::of(DType::S32, {3}, ends)}});
  };
  EXPECT_EQ(with({1, 3, 4}), (Numbers{1, 10, 4, 40, 6, 60, 12, 120}));
  EXPECT_EQ(with({0, 2, 2}), (Numbers{2, 20, 4, 40, 0, 0, 0, 0}));  // empty groups, rows of none
  EXPECT_EQ(with({3, 1, 9}), (Numbers{1, 10, 2, 20, 3, 30, 12, 120}));  // descending, beyond
  EXPECT_EQ(with({-5, -7, 2}), (Numbers{3, 30, 6, 60, 0, 0, 0, 0}));
}

TEST(Interpreter, NumbersTheGroupsOfRows) {
  const auto with = [](const Numbers& ends) {
    const auto groups = static_cast<int64_t>(ends.size());
    return run("graph g(o: s32[E], x: f32[R]) { return group_ids(o, [R]) }",
               {{"o", Tensor::of(DType::S32, {groups}, ends)}, {"x", f32({4}, {0, 0, 0, 0})}});
  };
  EXPECT_EQ(with({1, 3, 4}), (Numbers{0, 1, 1, 2}));
  EXPECT_EQ(with({0, 2, 2}), (Numbers{1, 1, 2, 2}));  // an empty group; rows of none: the last
  EXPECT_EQ(with({3, 1, 9}), (Numbers{0, 0, 0, 2}));  // descending, beyond
  EXPECT_EQ(with({-5, -7, 2}), (Numbers{2, 2, 2, 2}));
  EXPECT_EQ(with({0}), (Numbers{0, 0, 0, 0}));
  EXPECT_EQ(with({}), (Numbers{0, 0, 0, 0}));
  // A part of a tensor: every second end.
  EXPECT_EQ(run("graph g(o: s32[6]) { return group_ids(o[1::2], [5]) }",
                {{"o", Tensor::of(DType::S32, {6}, {9, 1, 9, 3, 9, 5})}}),
            (Numbers{0, 1, 1, 2, 2}));
}

TEST(Interpreter, ScalesBlocksWhoseLastMayBeShorter) {
  const Tensor q = Tensor::of(DType::S8, {2, 3}, {1, 2, 3, 4, 5, -6});
  EXPECT_EQ(run("graph g(q: s8[2,3], s: f32[2,2]) { return scale_blocks(q, s, [1, 2]) }",
                {{"q", q}, {"s", f32({2, 2}, {1, 10, 100, 0.5})}}),
            (Numbers{1, 2, 30, 400, 500, -3}));
  EXPECT_EQ(run("graph g(q: s8[2,3], s: bf16[1,2]) { return scale_blocks(q, s, [4, 2]) }",
                {{"q", q}, {"s", bf16({1, 2}, {3, -1})}}),
            (Numbers{3, 6, -3, 12, 15, 6}));
  // A product is rounded to f32, but for the yardstick.
  const std::vector<Named> third = {{"q", f32({1}, {0x1.000002p0})}, {"s", f32({1}, {3})}};
  const std::string text = "graph g(q: f32[1], s: f32[1]) { return scale_blocks(q, s, [1]) }";
  EXPECT_EQ(run(text, third), (Numbers{3 * 0x1.000002p0}));
  EXPECT_EQ(run(text, third, Precision::Fp32), (Numbers{0x1.800004p1}));
}

TEST(Interpreter, AnEmptyProductIsZero) {
  EXPECT_EQ(run("graph g(a: f32[1,0], b: f32[0,2]) { return a @ b }",
                {{"a", f32({1, 0}, {})}, {"b", f32({0, 2}, {})}}),
            (Numbers{0, 0}));
}

TEST(Interpreter, BytesMultiplyExactly) {
  EXPECT_EQ(run("graph g(a: s8[1,2], b: u8[2,1]) { return a @ b }",
                {{"a", Tensor::of(DType::S8, {1, 2}, {-128, 127})},
                 {"b", Tensor::of(DType::U8, {2, 1}, {255, 255})}}),
            (Numbers{-255}));
}

TEST(Interpreter, Moves) {
  const std::vector<Named> x{{"x", kSix}};
  EXPECT_EQ(run("graph g(x: f32[2,3]) { return transpose(x) }", x), (Numbers{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(run("graph g(x: f32[2,3]) { return x[:, ::2] }", x), (Numbers{1, 3, 4, 6}));
  EXPECT_EQ(run("graph g(x: f32[2,3]) { return x[::-1] }", x), (Numbers{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(run("graph g(x: f32[2,3]) { return reshape(transpose(x), [6]) }", x),
            (Numbers{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(run("graph g(x: f32[2,3]) { return concat(x, x[:, 0:1], axis=1) }", x),
            (Numbers{1, 2, 3, 1, 4, 5, 6, 4}));
  EXPECT_EQ(run("graph g(x: f32[2,3], i: s64[2]) { return gather(x, i, axis=1) }",
                {{"x", kSix}, {"i", Tensor::of(DType::S64, {2}, {2, -3})}}),
            (Numbers{3, 1, 6, 4}));
}

TEST(Interpreter, ScattersSortsAndCounts) {
  const std::vector<Named> x{{"x", kSix}};
  EXPECT_EQ(run("graph g(x: f32[2,3], i: s64[3]) { return scatter(transpose(x), i, x[:1, :2] + "
                "broadcast(0, [3, 2])) }",
                {{"x", kSix}, {"i", Tensor::of(DType::S64, {3}, {2, -3, 2})}}),
            (Numbers{1, 2, 2, 5, 1, 2}));
  EXPECT_EQ(run("graph g(x: f32[2,3]) { return argsort(x, axis=1) }",
                {{"x", f32({2, 3}, {3, 1, 3, NAN, 5, -INFINITY})}}),
            (Numbers{1, 0, 2, 2, 1, 0}));
  EXPECT_EQ(run("graph g(x: f32[2,3]) { return argsort(-x, axis=0) }", x),
            (Numbers{1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(run("graph g(x: f32[M,3]) { return arange([M, 2*M + 1]) }", x), (Numbers{2, 3, 4}));
  EXPECT_EQ(run("graph g(x: f32[M,3]) { return arange([-1*M, 1]) }", x), (Numbers{-2, -1, 0}));
}

TEST(Interpreter, AddsRowsInOrder) {
  const std::string text =
      "graph g(x: f32[3,2], i: s64[4], u: f32[4,2]) { return scatter_add(x, i, u) }";
  EXPECT_EQ(run(text, {{"x", f32({3, 2}, {1, 2, 3, 4, 5, 6})},
                       {"i", Tensor::of(DType::S64, {4}, {2, 0, -1, 2})},
                       {"u", f32({4, 2}, {1, 10, 2, 20, 3, 30, 4, 40})}}),
            (Numbers{3, 22, 3, 4, 13, 86}));
  EXPECT_EQ(run("graph g(x: s32[2], i: s32[2,2], u: s32[2,2]) { return scatter_add(x, i, u) }",
                {{"x", Tensor::of(DType::S32, {2}, {2147483647, 1})},
                 {"i", Tensor::of(DType::S32, {2, 2}, {0, 1, 1, 1})},
                 {"u", Tensor::of(DType::S32, {2, 2}, {1, 2, 3, 4})}}),
            (Numbers{-2147483648.0, 10}));
}

// 256 + 1 + 1 + 1 + 1 is 256 where each sum is rounded to bf16, 260 where one is.
TEST(Interpreter, AddedRowsRoundAsTheModeSays) {
  const Tensor x = bf16({1}, {256}), u = bf16({4}, {1, 1, 1, 1});
  const auto graph = *parse_graph(
      "graph g(x: bf16[1], u: bf16[4]) { return scatter_add(x, "
      "constant(s64[4], [0, 0, 0, 0]), u) }");
  const auto with = [&](Precision precision) {
    return (*interpret(graph, {{"x", x}, {"u", u}},
                       {.precision = precision, .accumulators = {}}))[0]
        .number_at(0);
  };
  EXPECT_EQ(with(Precision::Eager), 256);
  EXPECT_EQ(with(Precision::Fp32), 260);
}

TEST(Interpreter, WidensMxFp4) {
  // The first code is the lower half of a byte; 0x80 / 127 is 2^1, 0x7e 2^-1.
  std::vector<double> codes(32, 0), scales = {128, 126};
  const double bytes[] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe};
  std::copy(std::begin(bytes), std::end(bytes), codes.begin());
  codes[16] = 0xf7;
  Numbers want(64, 0);
  const double values[] = {0, 1, 2, 3, 4, 6, 8, 12, -0.0, -1, -2, -3, -4, -6, -8, -12};
  std::copy(std::begin(values), std::end(values), want.begin());
  want[32] = 3;
  want[33] = -3;
  EXPECT_EQ(run("graph g(c: u8[1,32], s: u8[1,2]) { return mxfp4(c, s) }",
                {{"c", Tensor::of(DType::U8, {1, 32}, codes)},
                 {"s", Tensor::of(DType::U8, {1, 2}, scales)}}),
            want);
}

TEST(Interpreter, DecodesIntegers) {
  const Named scales{"s", f32({1, 2}, {0.5, -2})};
  const auto decoded = [&](const std::string& arguments, Tensor codes, const Numbers& zeros = {}) {
    std::vector<Named> inputs{{"c", codes}, scales};
    if (!zeros.empty()) inputs.push_back({"z", Tensor::of(DType::U8, {1, 2}, zeros)});
    return run(fmt::format("graph g(c: {}, s: f32[1, 2]{}) {{ return decode(c, s{}, dtype=f32) }}",
                           codes.dtype() == DType::S8 ? "s8[1, 2]" : "u8[1, 2]",
                           zeros.empty() ? "" : ", z: u8[1, 2]", arguments),
               inputs);
  };
  const Tensor bytes = Tensor::of(DType::U8, {1, 2}, {0x10, 0xf8});
  // The first code is the lower half of a byte.
  EXPECT_EQ(decoded("", bytes), (Numbers{0, 0.5, -16, -30}));
  EXPECT_EQ(decoded(", zero=8", bytes), (Numbers{-4, -3.5, 0, -14}));
  EXPECT_EQ(decoded(", z", bytes, {1, 200}), (Numbers{-0.5, 0, 384, 370}));
  EXPECT_EQ(decoded(", bits=8, zero=128", bytes), (Numbers{-56, -240}));
  const Tensor both = Tensor::of(DType::S8, {1, 2}, {0x10, -8});
  EXPECT_EQ(decoded("", both), (Numbers{0, 0.5, 16, 2}));
  EXPECT_EQ(decoded(", bits=8", both), (Numbers{8, 16}));
}

TEST(Interpreter, ScatterOutOfRangeIsAnError) {
  const auto graph =
      *parse_graph("graph g(x: f32[2], i: s64[1], u: f32[1]) { return scatter(x, i, u) }");
  const auto result = interpret(
      graph,
      {{"x", f32({2}, {1, 2})}, {"i", Tensor::of(DType::S64, {1}, {-3})}, {"u", f32({1}, {7})}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().what, "scatter index -3 is outside an axis of 2");
}

TEST(Interpreter, Reduces) {
  const std::vector<Named> x{{"x", f32({2, 3}, {1, -7, 3, NAN, 5, 6})}};
  EXPECT_EQ(run("graph g(x: f32[2,3]) { return amax(x, axes=[1]) }", x)[0], 7);
  EXPECT_TRUE(std::isnan(run("graph g(x: f32[2,3]) { return reduce_max(x, axes=[1]) }", x)[1]));
  EXPECT_EQ(run("graph g(x: f32[2,3]) { return sum(x, axes=[0]) }", x)[1], -2);
  EXPECT_EQ(run("graph g(x: f32[2,3]) { return mean(x[0:1]) }", x), (Numbers{-1}));
}

TEST(Interpreter, GatherOutOfRangeIsAnError) {
  const auto graph = *parse_graph("graph g(x: f32[2], i: s64[1]) { return gather(x, i, axis=0) }");
  const auto result =
      interpret(graph, {{"x", f32({2}, {1, 2})}, {"i", Tensor::of(DType::S64, {1}, {2})}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().what, "gather index 2 is outside an axis of 2");
}

// 1 + 2^-8 + 2^-9: representable in f32, between bf16's 1 and 1 + 2^-7.
const Numbers kBetween{1.005859375};

TEST(Precision, ExactNeverRoundsFloats) {
  const std::vector<Named> x{{"x", f32({1}, kBetween)}};
  EXPECT_EQ(run("graph g(x: f32[1]) { return cast(x, bf16) }", x), kBetween);
}

TEST(Precision, Fp32RoundsWhereTheGraphCasts) {
  const std::vector<Named> x{{"x", f32({1}, kBetween)}};
  EXPECT_EQ(run("graph g(x: f32[1]) { return cast(cast(x, bf16, compute=f32), f32) }", x,
                Precision::Fp32),
            kBetween);
  EXPECT_EQ(run("graph g(x: f32[1]) { return cast(cast(x, bf16, compute=f32), f32) }", x,
                Precision::Eager),
            run("graph g(x: f32[1]) { return cast(cast(x, bf16), f32) }", x, Precision::Eager));
  EXPECT_EQ(run("graph g(x: f32[1]) { return cast(cast(x, bf16), f32) }", x, Precision::Fp32),
            (Numbers{1.0078125}));
}

TEST(Precision, OnlyEagerRoundsBetweenNodes) {
  // 1.0078125 * 1.0078125 = 1.01568603515625 is no bf16; minus 1 it is far from its rounding.
  const std::vector<Named> x{{"x", bf16({1}, {1.0078125})}};
  const std::string text = "graph g(x: bf16[1]) { return cast(x * x - 1, f32) }";
  EXPECT_EQ(run(text, x, Precision::Eager), (Numbers{0.015625}));
  EXPECT_NE(run(text, x, Precision::Fp32), (Numbers{0.015625}));
}

TEST(Precision, ADeclaredComputeTypeRoundsInFp32Mode) {
  const std::vector<Named> x{{"x", f32({1}, kBetween)}};
  EXPECT_EQ(run("graph g(x: f32[1]) { return add(x, 0, compute=bf16) }", x, Precision::Fp32),
            (Numbers{1.0078125}));
}

TEST(Precision, LiteralsComputeUnroundedLikePythonScalars) {
  // 1.702 as bf16 would be 1.703125; the product with 1 rounds to the same, with 3 it does not.
  const std::vector<Named> x{{"x", bf16({1}, {3})}};
  EXPECT_EQ(run("graph g(x: bf16[1]) { return cast(x * 1.702, f32) }", x, Precision::Fp32),
            (Numbers{static_cast<double>(3 * 1.702f)}));
}

TEST(Precision, GivenAccumulatorsReplaceTheProduct) {
  const auto graph = *parse_graph("graph g(a: bf16[1,1], b: bf16[1,1]) { return a @ b + 0 }");
  const Bindings inputs{{"a", bf16({1, 1}, {1})}, {"b", bf16({1, 1}, {1})}};
  InterpreterOptions options{.precision = Precision::Eager};
  options.accumulators.emplace(Value{2}, f32({1, 1}, kBetween));
  EXPECT_EQ((*interpret(graph, inputs, options))[0].number_at(0), 1.0078125);
}

TEST(Interpreter, ChecksItsInputs) {
  const auto graph = *parse_graph("graph g(x: f32[2]) { return x }");
  EXPECT_EQ(interpret(graph, {}).error().what, "input x is missing");
  EXPECT_EQ(interpret(graph, {{"x", bf16({2}, {1, 2})}}).error().what,
            "input x is bf16, the graph wants f32[2]");
}

TEST(Interpreter, AUsersKernelHasNoReference) {
  const auto graph = *parse_graph(
      "graph g(x: f32[2]) { return y = kernel(\"k.ptx\", x, f32[2], grid=[1], block=[2]) }");
  const auto result = interpret(graph, {{"x", f32({2}, {1, 2})}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().what, "the kernel of k.ptx has no reference");
  EXPECT_EQ(result.error().fix, "check a graph without it, or run it on a GPU");
}

// Whole numbers beyond 2^53, of which not every one has a double.
TEST(Semantics, ClampsIntegersExactly) {
  constexpr int64_t kEven = int64_t{1} << 53;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(sem::clamp(kEven + 1, -kInf, static_cast<double>(kEven)), kEven);
  EXPECT_EQ(sem::clamp(-kEven - 1, static_cast<double>(-kEven), kInf), -kEven);
  EXPECT_EQ(sem::clamp(kEven + 1, -kInf, kInf), kEven + 1);
  EXPECT_EQ(sem::clamp(int64_t{3}, 3.5, 3.9), 3);
  EXPECT_EQ(sem::clamp(int64_t{-9}, -2.5, 7.5), -2);
}

}  // namespace
}  // namespace attacca::ir
