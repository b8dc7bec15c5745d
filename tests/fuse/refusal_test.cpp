// Every op that is left out has a reason, and what must not fuse does not.
#include "fuse_testing.hpp"
#include "mentions.hpp"

namespace attacca::fuse::testing {
namespace {

struct RefusalCase {
  const char* name;
  const char* parameters;
  const char* body;
  const char* node;
  const char* mentioned;  // by the reason
};

class Refused : public ::testing::TestWithParam<RefusalCase> {};

TEST_P(Refused, Because) {
  EXPECT_TRUE(mentions(why_not(GetParam().parameters, GetParam().body, GetParam().node),
                       GetParam().mentioned));
}

constexpr const char* kXW = "x: f32[M, 8], w: f32[8, 4]";

const RefusalCase kCases[] = {
    {"bare_product", kXW, "y = x @ w; return y", "y", "no op follows"},
    {"second_product", "x: f32[M, 8], w: f32[8, 6], v: f32[6, 4]",
     "h = relu(x @ w); y = h @ v; return y", "y", "product; region of its own"},
    {"joined_the_other_product", "x: f32[M, 8], z: f32[M, 8], w: f32[8, 4], v: f32[8, 4]",
     "y = relu(x @ w) + tanh(z @ v); return y", "y", "y; another region"},
    {"needs_its_own_result", "x: f32[M, 8], w: f32[8, 8], v: f32[8, 8]",
     "h = relu(x @ w); u = h @ v; y = u + h; return y", "y", "u; depends; own result"},
    {"reads_a_reduction", kXW,
     "h = x @ w; m = reduce_max(h, axes=[1], keepdims=true); y = h - m; return y", "y",
     "y; whole of m; first element"},
    {"odd_axes", "x: f32[A, B, M, 8], w: f32[8, 4]", "y = sum(x @ w, axes=[0, 2]); return y", "y",
     "axes; neither rows, columns nor whole matrices"},
    {"reduction_after_a_reshape", "x: f32[M, 8], w: f32[8, 4]",
     "h = reshape(x @ w, [M, 2, 2]); y = sum(h, axes=[2]); return y", "y",
     "reduces h; shape [M, 4]"},
    {"reduction_of_pointwise", "x: f32[M, 8]", "y = sum(exp(x), axes=[1]); return y", "y",
     "sum; many elements"},
    {"gather", kXW, "t = x @ w; i = constant(s64[2], [0, 1]); y = gather(t, i, axis=0); return y",
     "y", "gather; run time"},
    {"concat", kXW, "t = x @ w; y = concat(t, t, axis=0); return y", "y",
     "concat; part of a larger tensor"},
    {"slice_of_columns", kXW, "t = x @ w; y = t[:, 0:3]; return y", "y",
     "slice; some elements; strides"},
    {"transposed_result", kXW, "y = transpose(relu(x @ w)); return y", "y",
     "transpose; other places; strides"},
    {"its_own_transpose", "x: f32[8, 8], w: f32[8, 8]", "h = x @ w; y = h + transpose(h); return y",
     "y", "reads h; other places; t3"},
    {"larger_result", "x: f32[M, 8], w: f32[8, 4], b: f32[3, M, 4]", "y = x @ w + b; return y", "y",
     "[3, M, 4]; repeats; [M, 4]; recomputed"},
    {"broadcast_across_a_reshape", "x: f32[2*S, 8], w: f32[8, 4], r: f32[2, 1, 4]",
     "y = reshape(x @ w, [2, S, 4]) + r; return y", "y", "no strides; [2*S, 4]; r[2, 1, 4]"},
    {"f64", "x: f64[M, 8], w: f64[8, 4]", "y = relu(x @ w); return y", "y",
     "f64 arithmetic; op by op"},
    {"to_f64", kXW, "y = cast(x @ w, f64); return y", "y", "f64 arithmetic; op by op"},
    {"s64", "x: s64[M, 8]", "y = x + 1; return y", "y", "s64 arithmetic; op by op"},
    {"s32_products", "x: s32[M, 8], w: s32[8, 4]", "y = x @ w; return y", "y",
     "products; s32; op by op"},
    {"too_many_outputs", kXW,
     "a = x @ w; b = relu(a); c = exp(b); d = tanh(c); e = abs(d); return a, b, c, d, e", "e",
     "more than 4 outputs"},
    {"copied_view", "x: f32[M, 8]", "y = x[:, 0:4]; return y", "y",
     "slice; result of the graph; copied"},
    {"view_for_a_lone_op", "x: f32[M, 8]", "t = transpose(x); y = concat(t, t); return y", "t",
     "transpose; op done on its own; copied"},
    {"reshape_that_needs_a_copy", "x: f32[M, 8]",
     "t = reshape(transpose(x), [M, 8]); y = exp(t); return y", "t",
     "reshape; op done on its own; copied"},
    {"reversed", "x: f32[4]", "t = x[::-1]; y = exp(t); return y", "t",
     "slice; op done on its own; copied"},
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
  EXPECT_TRUE(mentions(result.refusals[0].reason, "fusing; off"));
}

}  // namespace
}  // namespace attacca::fuse::testing
