// Type rules: a graph's text in, the result's type or the error and its fix out.
#include "gtest/gtest.h"

#include "ir/text/text.hpp"

namespace attacca::ir {
namespace {

std::string type_of(const std::string& inputs, const std::string& expression) {
  const auto graph = parse_graph("graph g(" + inputs + ") { return " + expression + " }");
  if (!graph) return graph.error().what;
  if (const auto valid = verify(*graph); !valid) return "verify: " + valid.error().what;
  return to_string(graph->type(graph->outputs()[0].value));
}

struct Case {
  const char *inputs, *expression, *expected;
};

class TypeRules : public testing::TestWithParam<Case> {};

TEST_P(TypeRules, Infer) {
  const auto [inputs, expression, expected] = GetParam();
  EXPECT_EQ(type_of(inputs, expression), expected) << expression;
}

const Case kCases[] = {
    // Promotion and literals.
    {"x: bf16[M], y: f16[M]", "x + y", "f32[M]"},
    {"x: bf16[M], y: s8[M]", "x + y", "bf16[M]"},
    {"x: s8[M], y: u8[M]", "x + y", "s32[M]"},
    {"x: bf16[M]", "1.5 * x", "bf16[M]"},
    {"x: f8e4m3[M], y: f32[M]", "x + y", "add mixes f8e4m3 and f32"},
    {"x: s32[M]", "exp(x)", "exp needs floats, got s32[M]"},
    {"x: bool[M]", "x + x", "add does not take bool"},
    {"x: f32[M]", "x > 0", "bool[M]"},
    {"x: f32[M], y: bf16[M]", "where(x > 0, x, y)", "f32[M]"},
    {"x: f32[M]", "where(x, x, x)", "where needs a bool condition, got f32[M]"},
    // Broadcasting.
    {"x: f32[M, 4], y: f32[4]", "x * y", "f32[M, 4]"},
    {"x: f32[M, 1], y: f32[1, N]", "x * y", "f32[M, N]"},
    {"x: f32[M], y: f32[4]", "x * y", "mul cannot broadcast [M] with [4]"},
    // Products.
    {"a: bf16[B, M, 8], b: bf16[8, N]", "a @ b", "bf16[B, M, N]"},
    {"a: s8[M, 8], b: u8[8, 4]", "a @ b", "s32[M, 4]"},
    {"a: f8e4m3[M, 8], b: f8e5m2[8, 4]", "a @ b", "f32[M, 4]"},
    {"a: bf16[M, 8], b: bf16[8, 4]", "matmul(a, b, out=f32)", "f32[M, 4]"},
    {"a: f8e4m3[M, 8], b: f8e5m2[8, 4]", "matmul(a, b, out=bf16, fast=true)", "bf16[M, 4]"},
    {"x: f8e4m3[R, 8], w: f8e4m3[3, 8, 4], o: s32[3]", "grouped_matmul(x, w, o, fast=true)",
     "f32[R, 4]"},
    {"a: f8e5m2[M, 8], b: f8e5m2[8, 4]", "a @ b", "f32[M, 4]"},
    {"a: f8e5m2[M, 8], b: f8e4m3[8, 4]", "matmul(a, b, out=f8e4m3)",
     "matmul of f8e5m2 with f8e4m3 cannot give f8e4m3"},
    {"a: bf16[M, 8], b: bf16[8, 4]", "matmul(a, b, out=f8e5m2)",
     "matmul of bf16 with bf16 cannot give f8e5m2"},
    {"a: bf16[M, 8], b: f8e4m3[8, 4]", "a @ b", "matmul of bf16 with f8e4m3"},
    {"a: bf16[M, 8], b: bf16[8, 4]", "matmul(a, b, fast=true)",
     "matmul of bf16[M, 8], bf16[8, 4] has no fast accumulation"},
    {"a: bf16[M, 8], b: s8[8, 4]", "a @ b", "matmul of bf16 with s8"},
    {"a: s8[M, 8], b: s8[8, 4]", "matmul(a, b, out=f32)", "matmul of s8 with s8 cannot give f32"},
    {"a: f32[M, 8], b: f32[4, 8]", "a @ b", "matmul needs equal inner dimensions, got 8 and 4"},
    {"a: f32[8], b: f32[8, 4]", "a @ b", "matmul needs matrices, got f32[8], f32[8, 4]"},
    {"x: bf16[R, 8], w: bf16[3, 8, N], o: s32[3]", "grouped_matmul(x, w, o)", "bf16[R, N]"},
    {"x: bf16[R, 8], w: f32[E, 4, 8], o: s32[E]", "grouped_matmul(x, transpose(w), o)",
     "f32[R, 4]"},
    {"x: s8[R, 8], w: s8[3, 8, 4], o: s32[3]", "grouped_matmul(x, w, o)", "s32[R, 4]"},
    {"x: bf16[R, 8], w: bf16[3, 8, 4], o: s32[3]", "grouped_matmul(x, w, o, out=f32)", "f32[R, 4]"},
    {"x: bf16[R, 8], w: bf16[3, 4, 8], o: s32[3]", "grouped_matmul(x, w, o)",
     "grouped_matmul needs equal inner dimensions, got 8 and 4"},
    {"x: bf16[R, 8], w: bf16[3, 8, 4], o: s32[4]", "grouped_matmul(x, w, o)",
     "grouped_matmul needs the ends of 3 groups as s32[3], got s32[4]"},
    {"x: bf16[R, 8], w: bf16[3, 8, 4], o: s64[3]", "grouped_matmul(x, w, o)",
     "grouped_matmul needs the ends of 3 groups as s32[3], got s64[3]"},
    {"x: bf16[2, R, 8], w: bf16[3, 8, 4], o: s32[3]", "grouped_matmul(x, w, o)",
     "grouped_matmul needs rows [R, K] and a matrix [K, N] of each of E groups, got bf16[2, R, 8], "
     "bf16[3, 8, 4]"},
    {"x: bf16[R, 8], w: bf16[3, 8, 4], o: s32[3]", "grouped_matmul(x, w, o, fast=true)",
     "grouped_matmul of bf16[R, 8], bf16[3, 8, 4] has no fast accumulation"},
    // Scales of blocks.
    {"x: f8e4m3[M, 300], s: f32[M, 3]", "scale_blocks(x, s, [1, 128])", "f32[M, 300]"},
    {"x: s8[130, 64], s: bf16[2, 1]", "scale_blocks(x, s, [128, 128])", "f32[130, 64]"},
    {"x: f8e4m3[M, 300], s: f32[M, 2]", "dequantize(x, s, block=[1, 128])",
     "scale_blocks of f8e4m3[M, 300] in blocks of [1, 128] takes 3 scales along axis 1, got "
     "f32[M, 2]"},
    {"x: f8e4m3[M, 300], s: f32[M, 3]", "scale_blocks(x, s, [128, 128])",
     "blocks of 128 along an axis of M"},
    {"x: f8e4m3[M, 300], s: f32[M, 3]", "scale_blocks(x, s, [1, 0])",
     "blocks of 0 along an axis of 300"},
    {"x: f8e4m3[M, 300], s: f32[3]", "scale_blocks(x, s, [128])",
     "scale_blocks of f8e4m3[M, 300] by f32[3] in blocks of [128]"},
    {"x: s32[4], s: f32[1]", "scale_blocks(x, s, [4])", "scale_blocks of s32[4] by f32[1]"},
    {"x: f8e4m3[4], s: f8e4m3[1]", "scale_blocks(x, s, [4])",
     "scale_blocks of f8e4m3[4] by f8e4m3[1]"},
    // Moves.
    {"x: f32[B, S, 8]", "reshape(x, [B*S, 8])", "f32[B*S, 8]"},
    {"x: f32[B, S, 8]", "reshape(x, [-1, 4])", "f32[2*B*S, 4]"},
    {"x: f32[M, 3]", "reshape(x, [M, 4])",
     "reshape of f32[M, 3] to [M, 4] changes the number of elements"},
    {"x: f32[M, 8]", "x[:, ::2]", "f32[M, 4]"},
    {"x: f32[M, 2*I]", "x[:, 1::2]", "f32[M, I]"},
    {"x: f32[M, 7]", "x[:, 1:6:2]", "f32[M, 3]"},
    {"x: f32[2, 3], y: f32[2, 4]", "concat(x, y, axis=-1)", "f32[2, 7]"},
    {"x: f32[2, 3], y: f32[3, 3]", "concat(x, y, axis=1)",
     "concat of f32[2, 3], f32[3, 3] along axis 1"},
    {"x: f32[4], y: f32[M]", "broadcast(x, [M, 4])", "f32[M, 4]"},
    {"x: f32[4]", "broadcast(x, [M, 4])", "no input has a dimension M"},
    {"x: f32[4]", "broadcast(x, [4, 2])", "f32[4] does not broadcast to [4, 2]"},
    {"x: f32[2, 3, 4]", "permute(x, [2, 0, 1])", "f32[4, 2, 3]"},
    {"x: f32[2, 3]", "permute(x, [0, 0])", "permute names axis 0 twice"},
    {"x: f32[9, 4], i: s64[M]", "gather(x, i, axis=0)", "f32[M, 4]"},
    {"x: f32[9, 4], i: f32[M]", "gather(x, i, axis=0)",
     "gather needs s32 or s64 indices, got f32[M]"},
    {"x: f32[9, 4], i: s64[2, M], u: f32[2, M, 4]", "scatter(x, i, u)", "f32[9, 4]"},
    {"x: f32[9, 4], i: s64[M], u: f32[M, 3]", "scatter(x, i, u)",
     "scatter of f32[M, 3] to s64[M] into f32[9, 4]"},
    {"x: bf16[T, 4], i: s32[R], u: bf16[R, 4]", "scatter_add(x, i, u)", "bf16[T, 4]"},
    {"x: f32[9, 4], i: s64[M], u: f32[M, 3]", "scatter_add(x, i, u)",
     "scatter_add of f32[M, 3] to s64[M] into f32[9, 4]"},
    {"x: bool[9], i: s64[M], u: bool[M]", "scatter_add(x, i, u)", "scatter_add into bool[9]"},
    {"c: u8[8, N, 48], s: u8[8, N, 3]", "mxfp4(c, s)", "bf16[8, N, 96]"},
    {"c: u8[8, 16*K], s: u8[8, K]", "mxfp4(c, s)", "bf16[8, 32*K]"},
    {"c: u8[8, 40], s: u8[8, 3]", "mxfp4(c, s)", "mxfp4 of u8[8, 40] with u8[8, 3]"},
    {"c: s8[8, 48], s: u8[8, 3]", "mxfp4(c, s)", "mxfp4 of s8[8, 48] with u8[8, 3]"},
    {"c: u8[8, N, 48], s: bf16[8, N, 3]", "decode(c, s)", "bf16[8, N, 96]"},
    {"c: s8[8, 64], s: f32[8, 1]", "decode(c, s, bits=8, dtype=f16)", "f16[8, 64]"},
    {"c: u8[8, 64], s: f16[8, 2], z: u8[8, 2]", "decode(c, s, z, dtype=f32)", "f32[8, 128]"},
    {"c: u8[8, 64], s: f16[8, 3]", "decode(c, s)", "decode of u8[8, 64] by f16[8, 3]"},
    {"c: u8[8, K], s: f16[8, 3]", "decode(c, s)", "decode of u8[8, K] by f16[8, 3]"},
    {"c: u8[8, 64], s: f64[8, 2]", "decode(c, s)", "decode of u8[8, 64] by f64[8, 2]"},
    {"c: u8[8, 64], s: f16[8, 2]", "decode(c, s, bits=2)", "decode of 2 bits"},
    {"c: u8[8, 64], s: f16[8, 2]", "decode(c, s, dtype=f8e4m3)", "decode to f8e4m3"},
    {"c: u8[8, 64], s: f16[8, 2]", "decode(c, s, zero=16)", "decode of u8 codes with zero=16"},
    {"c: s8[8, 64], s: f16[8, 2], z: u8[8, 2]", "decode(c, s, z)",
     "decode of s8 codes with zero points"},
    {"c: u8[8, 64], s: f16[8, 2], z: u8[8, 1]", "decode(c, s, z)",
     "decode with zero points u8[8, 1]"},
    {"x: f32[9, 4], i: f32[M], u: f32[M, 4]", "scatter(x, i, u)",
     "scatter needs s32 or s64 indices, got f32[M]"},
    {"x: f32[M, 4]", "argsort(x, axis=-1)", "s64[M, 4]"},
    {"x: f32[M, 4]", "argsort(x, axis=2)", "axis 2 of argsort is outside a tensor of rank 2"},
    {"x: f32[M, 4]", "arange([2, M + 1])", "s64[M + -1]"},
    {"x: f32[M, 4]", "arange([2, 1])", "arange of [2, 1] ends before it begins"},
    {"x: f32[M, 4]", "arange([0 - 9223372036854775807, 9223372036854775807])",
     "arange of [-9223372036854775807, 9223372036854775807] has more elements than 64 bits count"},
    {"x: f32[M, 4]", "arange([M])", "arange of [M]"},
    {"o: s32[E], x: f32[R, 4]", "group_ids(o, [R])", "s32[R]"},
    {"o: s32[0]", "group_ids(o, [7])", "s32[7]"},
    {"o: s64[E]", "group_ids(o, [7])",
     "group_ids needs the ends of the groups as s32[E], got s64[E]"},
    {"o: s32[E, 1]", "group_ids(o, [7])",
     "group_ids needs the ends of the groups as s32[E], got s32[E, 1]"},
    {"o: s32[E]", "group_ids(o, [7, 2])", "group_ids of rows [7, 2]"},
    // Casts.
    {"x: f32[4]", "cast(x, bf16, compute=f32)", "bf16[4]"},
    {"x: f32[4]", "cast(x, bf16, compute=f16)", "compute=f16 of a cast"},
    {"x: s32[4]", "cast(x, bf16, compute=f32)", "cast from s32 to bf16 with compute=f32"},
    {"x: f32[4]", "cast(x, s8, compute=f32)", "cast from f32 to s8 with compute=f32"},
    {"x: f32[4]", "cast(x, bf16, compute=f32, saturate=true)",
     "a cast with both saturate= and compute="},
    // Reductions.
    {"x: f32[M, 4]", "sum(x, axes=[-1], keepdims=true)", "f32[M, 1]"},
    {"x: bf16[M, 4]", "amax(x)", "bf16[]"},
    {"x: s8[M, 4]", "sum(x)", "sum of s8[M, 4]"},
    {"x: f32[M, 4]", "mean(x, axes=[2])", "axis 2 of mean is outside a tensor of rank 2"},
    // Users' kernels.
    {"x: f16[M, 8]", "kernel(\"k.ptx\", x, bf16[M, 2*M], grid=[M], block=[32])", "bf16[M, 2*M]"},
    {"x: f16[8]", "kernel(\"k.ptx\", u8[], s64(-1), grid=[1], block=[1])", "u8[]"},
    {"x: f16[8]", "kernel(\"k.so\", f32[8], grid=[1], block=[1])", "kernel of the file \"k.so\""},
    {"x: f16[8]", "kernel(\"k.cu\", f32[8], grid=[1], block=[1])",
     "kernel does not say which of k.cu"},
    {"x: f16[8]", "kernel(\"k.ptx\", f32[8], grid=[1], block=[1], options=[\"-G\"])",
     "kernel gives options for a file that is PTX already"},
    {"x: f16[8]", "kernel(\"k.ptx\", x, grid=[1], block=[1])", "kernel has 0 outputs"},
    {"x: f16[8]", "kernel(\"k.ptx\", f32[8], f32[8], grid=[1], block=[1])", "kernel has 2 outputs"},
    {"x: f16[8]", "kernel(\"k.ptx\", f32[8], bool(1), grid=[1], block=[1])",
     "kernel passes a number of bool"},
    {"x: f16[8]", "kernel(\"k.ptx\", f32[8], block=[1])", "kernel has a grid of 0 axes"},
    {"x: f16[8]", "kernel(\"k.ptx\", f32[8], grid=[1], block=[1, 1, 1, 1])",
     "kernel has a block of 4 axes"},
    {"x: f16[8]", "kernel(\"k.ptx\", f32[8], grid=[1], block=[64, 17])",
     "kernel has a block of 64 x 17 threads"},
    {"x: f16[8]", "kernel(\"k.ptx\", f32[8], grid=[1], block=[64, 0])",
     "kernel has a block of 64 x 0 threads"},
    {"x: f16[8]", "kernel(\"k.ptx\", f32[8], grid=[1], block=[1], shared=-1)",
     "kernel asks for -1 bytes of shared memory"},
    {"x: f16[8]", "kernel(\"k.ptx\", f32[-1], grid=[1], block=[1])",
     "kernel with the negative dimension -1"},
};

INSTANTIATE_TEST_SUITE_P(Table, TypeRules, testing::ValuesIn(kCases));

TEST(BindSymbols, NamesTheInputThatDisagrees) {
  const auto graph = *parse_graph("graph g(x: f32[M, 4], y: f32[M, 2*N]) { return x[0:2], y }");
  const auto what = [&](std::vector<int64_t> x, std::vector<int64_t> y) {
    const auto bound = bind_symbols(graph, {{"x", std::move(x)}, {"y", std::move(y)}});
    return bound ? std::string("bound") : bound.error().what;
  };
  EXPECT_EQ(what({3, 4}, {4, 6}), "dimension M is 3 elsewhere and 4 in axis 0 of input y");
  EXPECT_EQ(what({3, 5}, {3, 6}), "axis 1 of input x is 5, the graph wants f32[M, 4]");
  EXPECT_EQ(what({3, 4}, {3, 5}), "axis 1 of input y is 5, the graph wants f32[M, 2*N]");
  EXPECT_EQ(what({3, 4}, {3, 6}), "bound");
  EXPECT_EQ(what({3}, {3, 6}), "input x has rank 1, the graph wants f32[M, 4]");
}

TEST(BindSymbols, SolvesSumsOfOneSymbol) {
  const auto bound = [](const std::string& dim, int64_t extent) {
    const auto graph = *parse_graph("graph g(x: f32[" + dim + ", 4]) { return x }");
    const auto symbols = bind_symbols(graph, {{"x", {extent, 4}}});
    return symbols ? std::to_string(symbols->at("M")) : symbols.error().what;
  };
  EXPECT_EQ(bound("M + 1", 7), "6");
  EXPECT_EQ(bound("2*M + 1", 7), "3");
  EXPECT_EQ(bound("2*M + 1", 1), "0");
  EXPECT_EQ(bound("3*M - 2", 7), "3");
  EXPECT_EQ(bound("3*M - 2", 1), "1");
  EXPECT_EQ(bound("10 - 3*M", 7), "1");
  EXPECT_EQ(bound("10 - 3*M", 10), "0");
  for (const auto& [dim, extent] : {std::pair{"2*M + 1", 8}, {"2*M + 1", 0}, {"2*M", 7}})
    EXPECT_EQ(bound(dim, extent), "axis 0 of input x is " + std::to_string(extent) +
                                      ", the graph wants f32[" + dim + ", 4]");
  EXPECT_EQ(bound("10 - M", 11).substr(0, 24), "axis 0 of input x is 11,");
  EXPECT_EQ(bound("M*M", 9), "dimension M has no value");
  const auto graph = *parse_graph("graph g(x: f32[2*M + 1], y: f32[M]) { return x, y }");
  EXPECT_EQ(bind_symbols(graph, {{"x", {7}}, {"y", {3}}})->at("M"), 3);
  EXPECT_EQ(bind_symbols(graph, {{"x", {7}}, {"y", {4}}}).error().what,
            "dimension M is 3 elsewhere and 4 in axis 0 of input y");
}

TEST(BindSymbols, ChecksSlicesOfSymbolicAxes) {
  const auto graph = *parse_graph("graph g(x: f32[M, 4]) { return x[0:2] }");
  EXPECT_TRUE(bind_symbols(graph, {{"x", {2, 4}}}));
  EXPECT_EQ(bind_symbols(graph, {{"x", {1, 4}}}).error().what,
            "slice 0:2:1 is outside axis 0 of size 1");
}

TEST(Infer, ABroadcastCannotMakeANegativeDimension) {
  EXPECT_FALSE(infer(Op::Broadcast, {{DType::F32, {}}}, ShapeAttrs{{-1}}));
}

TEST(Verify, FindsATypeThatIsNotComputed) {
  Graph graph;
  graph.add_output(*graph.input("x", {DType::F32, {4}}));
  EXPECT_TRUE(verify(graph));
  EXPECT_FALSE(verify(Graph()));  // no outputs
  Graph literal;
  literal.add_output(literal.literal(300, DType::S8));
  EXPECT_EQ(verify(literal).error().what, "the literal 300 is no s8");
}

TEST(Names, HoldNoNul) {
  const std::string nul("a\0b", 3);
  Graph graph;
  EXPECT_EQ(graph.input(nul, {DType::F32, {}}).error().what, "a name holds a NUL byte");
  const Value x = *graph.input("x", {DType::F32, {}});
  const Value y = *graph.add(Op::Exp, {x});
  EXPECT_EQ(graph.set_name(y, nul).error().where, "a");
  graph.add_output(y, "y");
  EXPECT_TRUE(verify(graph));
  graph.add_output(y, nul);
  EXPECT_EQ(verify(graph).error().what, "a name holds a NUL byte");
}

}  // namespace
}  // namespace attacca::ir
