// Every op that is left out has a reason, and what must not fuse does not.
#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

struct RefusalCase {
  const char* name;
  const char* parameters;
  const char* body;
  const char* node;
  const char* reason;
};

class Refused : public ::testing::TestWithParam<RefusalCase> {};

TEST_P(Refused, Because) {
  EXPECT_EQ(why_not(GetParam().parameters, GetParam().body, GetParam().node), GetParam().reason);
}

constexpr const char* kXW = "x: f32[M, 8], w: f32[8, 4]";

const RefusalCase kCases[] = {
    {"bare_product", kXW, "y = x @ w; return y", "y", "no op follows it"},
    {"second_product", "x: f32[M, 8], w: f32[8, 6], v: f32[6, 4]",
     "h = relu(x @ w); y = h @ v; return y", "y", "a matrix product starts a region of its own"},
    {"joined_the_other_product", "x: f32[M, 8], z: f32[M, 8], w: f32[8, 4], v: f32[8, 4]",
     "y = relu(x @ w) + tanh(z @ v); return y", "y", "y already belongs to another region"},
    {"needs_its_own_result", "x: f32[M, 8], w: f32[8, 8], v: f32[8, 8]",
     "h = relu(x @ w); u = h @ v; y = u + h; return y", "y",
     "its operand u depends on this region's own result"},
    {"reads_a_reduction", kXW,
     "h = x @ w; m = reduce_max(h, axes=[1], keepdims=true); y = h - m; return y", "y",
     "y needs the whole of m before its first element"},
    {"mean", kXW, "h = x @ w; y = mean(h, axes=[1]); return y", "y",
     "mean scales a finished sum; only sum, reduce_max, reduce_min and amax join a region"},
    {"odd_axes", "x: f32[A, B, M, 8], w: f32[8, 4]", "y = sum(x @ w, axes=[0]); return y", "y",
     "it reduces axes that are neither rows nor columns"},
    {"reduction_after_a_reshape", "x: f32[M, 8], w: f32[8, 4]",
     "h = reshape(x @ w, [M, 2, 2]); y = sum(h, axes=[2]); return y", "y",
     "it reduces h, which is not of the region's shape [M, 4]"},
    {"reduction_of_pointwise", "x: f32[M, 8]", "y = sum(exp(x), axes=[1]); return y", "y",
     "sum needs many elements for one"},
    {"gather", kXW, "t = x @ w; i = constant(s64[2], [0, 1]); y = gather(t, i, axis=0); return y",
     "y", "gather reads elements at places known only at run time"},
    {"concat", kXW, "t = x @ w; y = concat(t, t, axis=0); return y", "y",
     "concat writes into a part of a larger tensor"},
    {"slice_of_columns", kXW, "t = x @ w; y = t[:, 0:3]; return y", "y",
     "slice keeps only some elements; its readers absorb it as strides where they can"},
    {"transposed_result", kXW, "y = transpose(relu(x @ w)); return y", "y",
     "transpose moves elements to other places; its readers absorb it as strides where they can"},
    {"its_own_transpose", "x: f32[8, 8], w: f32[8, 8]", "h = x @ w; y = h + transpose(h); return y",
     "y", "it reads h at other places too, through t3"},
    {"larger_result", "x: f32[M, 8], w: f32[8, 4], b: f32[3, M, 4]", "y = x @ w + b; return y", "y",
     "its result [3, M, 4] repeats the elements of [M, 4]: they would be recomputed"},
    {"broadcast_across_a_reshape", "x: f32[2*S, 8], w: f32[8, 4], r: f32[2, 1, 4]",
     "y = reshape(x @ w, [2, S, 4]) + r; return y", "y",
     "no strides over [2*S, 4] reach the elements of its operand r[2, 1, 4]"},
    {"f64", "x: f64[M, 8], w: f64[8, 4]", "y = relu(x @ w); return y", "y",
     "f64 arithmetic is done op by op"},
    {"to_f64", kXW, "y = cast(x @ w, f64); return y", "y", "f64 arithmetic is done op by op"},
    {"s64", "x: s64[M, 8]", "y = x + 1; return y", "y", "s64 arithmetic is done op by op"},
    {"s32_products", "x: s32[M, 8], w: s32[8, 4]", "y = x @ w; return y", "y",
     "products of s32 with s32 are done op by op"},
    {"too_many_outputs", kXW,
     "a = x @ w; b = relu(a); c = exp(b); d = tanh(c); e = abs(d); return a, b, c, d, e", "e",
     "the region would have more than 4 outputs"},
    {"copied_view", "x: f32[M, 8]", "y = x[:, 0:4]; return y", "y",
     "slice is a result of the graph: its elements are copied"},
    {"view_for_a_lone_op", "x: f32[M, 8]", "t = transpose(x); y = concat(t, t); return y", "t",
     "transpose is read by an op done on its own: its elements are copied"},
    {"reshape_that_needs_a_copy", "x: f32[M, 8]",
     "t = reshape(transpose(x), [M, 8]); y = exp(t); return y", "t",
     "reshape is read by an op done on its own: its elements are copied"},
    {"reversed", "x: f32[4]", "t = x[::-1]; y = exp(t); return y", "t",
     "slice is read by an op done on its own: its elements are copied"},
};
INSTANTIATE_TEST_SUITE_P(Cases, Refused, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(Refused, OpsOnTheirOwnAllSayWhy) {
  const Partition result = partition_of(graph_text(
      "x: f32[M, 8], i: s64[2]", "return mean(x), gather(x, i), transpose(x), concat(x, x)"));
  EXPECT_EQ(result.regions.size(), 4u);
  EXPECT_EQ(result.refusals.size(), 4u);
}

TEST(Refused, UnfusedProductsSaySo) {
  const Partition result =
      partition_of(graph_text("x: f32[M, 8], w: f32[8, 4]", "return relu(x @ w)"), {.fuse = false});
  ASSERT_EQ(result.refusals.size(), 1u);
  EXPECT_EQ(result.refusals[0].reason, "fusing is off");
}

}  // namespace
}  // namespace attacca::fuse::testing
