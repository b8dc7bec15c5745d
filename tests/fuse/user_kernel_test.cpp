// Users' kernels in a graph: which tails may join them by the graph's rules, and why not.
#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

constexpr const char* kInputs =
    "x: f32[M, 8], w: f32[8, 4], row: f32[4], col: f32[M, 1], full: f32[M, 4], half: f16[M, 4]";

// "k = kernel(...)", whose result is f32[M, 4], and what follows.
std::string body(const std::string& rest, const std::string& more = "") {
  return "k = kernel(\"k.cu\", x, w, f32[M, 4], s32(M), entry=gemm, grid=[ceildiv(M, 64)], "
         "block=[64]" +
         more + ")\n" + rest;
}

struct TailCase {
  const char* name;
  const char* rest;
  const char* regions;
};

class Tail : public ::testing::TestWithParam<TailCase> {};

TEST_P(Tail, Joins) {
  EXPECT_EQ(fused(kInputs, body(GetParam().rest)), GetParam().regions);
}

const TailCase kTails[] = {
    {"unary", "return y = silu(k)", "kernel y = silu(acc)"},
    {"every_role", "return y = relu(k + row) * col + full / 2",
     "kernel y = relu(acc + row(row)) * col(col) + full(full) / 2"},
    {"several_readings", "return y = k * sigmoid(k) + k", "kernel y = acc * sigmoid(acc) + acc"},
    {"through_a_reshape", "return y = relu(reshape(k, [4*M])) + reshape(full, [4*M])",
     "kernel y = relu(acc) + full(full)"},
    {"operands_that_only_the_tail_reads", "return y = k + cast(half, f32)",
     "kernel y = acc + cast(full(half), f32)"},
    {"a_product_as_operand", "p = x @ w; return y = k + p",
     "gemm p = acc; kernel y = acc + full(p)"},
    {"another_dtype_of_the_same_size", "return y = cast(relu(k), s32)",
     "kernel y = cast(relu(acc), s32)"},
    {"two_kernels", "j = kernel(\"k.ptx\", k, f32[M, 4], grid=[1], block=[1])\nreturn y = exp(j)",
     "single k; kernel y = exp(acc)"},
    {"tails_of_both",
     "a = relu(k)\nj = kernel(\"k.ptx\", a, f32[M, 4], grid=[1], block=[1])\nreturn y = exp(j)",
     "kernel a = relu(acc); kernel y = exp(acc)"},
    {"no_tail", "return k", "single k"},
    {"only_a_copy", "return y = reshape(k, [4*M])", "single k; single y"},
    {"before_a_product", "return y = relu(k @ transpose(w))", "single k; gemm y = relu(acc)"},
};
INSTANTIATE_TEST_SUITE_P(Cases, Tail, ::testing::ValuesIn(kTails),
                         [](const auto& info) { return info.param.name; });

struct RefusedTail {
  const char* name;
  const char* rest;
  const char* node;
  const char* reason;
};

class TailRefused : public ::testing::TestWithParam<RefusedTail> {};

TEST_P(TailRefused, Because) {
  EXPECT_EQ(why_not(kInputs, body(GetParam().rest), GetParam().node), GetParam().reason);
}

const RefusedTail kRefused[] = {
    {"graph_output", "return y = relu(k), k", "y",
     "k is a result of the graph as its kernel stores it"},
    {"only_consumer", "return y = relu(k), z = k @ transpose(w)", "y",
     "k is read by other ops, too: its values must reach memory"},
    {"one_result", "y = relu(k)\nreturn y, z = exp(y)", "z",
     "the kernel stores one result, and y is needed besides z"},
    {"no_alias", "a = reshape(k, [2*M, 2])\nreturn a, y = relu(k)", "y",
     "a is the memory of k, which is needed besides y"},
    {"size_smaller", "return y = sum(k, axes=[1])", "y", "sum needs many elements for one"},
    {"size_larger", "b = constant(f32[2, 1, 1], [1, 2])\nreturn y = k + b", "y",
     "its result [2, M, 4] repeats the elements of [M, 4]: they would be recomputed"},
    {"stride", "t = k[:, 0:4:2]\nreturn y = relu(t)", "t",
     "slice reads k at other places than its kernel writes"},
    {"dtype_of_another_size", "return y = cast(relu(k), bf16)", "y",
     "the kernel stores f32, and y is bf16: elements of another size"},
    {"dtype_f64", "return y = cast(k, f64)", "y", "f64 arithmetic is done op by op"},
    {"read_index", "t = transpose(k)\nreturn y = relu(t)", "t",
     "transpose reads k at other places than its kernel writes"},
    {"read_index_too", "s = reshape(k, [4, M])\nreturn y = k[0:M, :] + k", "y",
     "it reads k at other places too, through t8"},
    {"gather", "i = constant(s64[1], [0])\nreturn y = gather(k, i, axis=0)", "y",
     "gather reads elements at places known only at run time"},
    {"a_product", "return y = k @ transpose(w)", "y",
     "a matrix product starts a region of its own"},
};
INSTANTIATE_TEST_SUITE_P(Cases, TailRefused, ::testing::ValuesIn(kRefused),
                         [](const auto& info) { return info.param.name; });

TEST(UserKernel, D2StartsUninitialised) {
  EXPECT_EQ(why_not(kInputs, body("return y = relu(k)", ", zeroed=true"), "y"),
            "k starts as zeros, not uninitialised: its kernel may add to them");
  EXPECT_EQ(fused(kInputs, body("return y = relu(k)", ", zeroed=true")),
            "single k; pointwise y = relu(full(k))");
}

// Ops of the right size join, and the others follow.
TEST(UserKernel, D2TheLongestTailOfTheRightSizeJoins) {
  EXPECT_EQ(fused(kInputs, body("a = relu(k + row)\nreturn y = cast(a, bf16)")),
            "kernel a = relu(acc + row(row)); pointwise y = cast(full(a), bf16)");
}

TEST(UserKernel, UnfusedGraphsLeaveItAlone) {
  const Partition result =
      partition_of(graph_text(kInputs, body("return y = relu(k)")), {.fuse = false});
  EXPECT_EQ(summary(result), "single k; pointwise y = relu(full(k))");
  ASSERT_EQ(result.refusals.size(), 1u);
  EXPECT_EQ(result.refusals[0].reason, "fusing is off");
}

// A view that a kernel reads is copied: a kernel is passed an address.
TEST(UserKernel, OperandsAreInMemory) {
  EXPECT_EQ(fused("x: f32[8, M]",
                  "k = kernel(\"k.ptx\", transpose(x), f32[M, 8], grid=[1], block=[1])\n"
                  "return y = relu(k)"),
            "single t1; kernel y = relu(acc)");
}

}  // namespace
}  // namespace attacca::fuse::testing
