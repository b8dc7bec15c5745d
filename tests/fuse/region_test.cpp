// One product and what follows it: operands of every role, casts, views, several outputs.
#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

struct FusedCase {
  const char* name;
  const char* parameters;
  const char* body;
  const char* expected;
};

class Fused : public ::testing::TestWithParam<FusedCase> {};

TEST_P(Fused, As) {
  EXPECT_EQ(fused(GetParam().parameters, GetParam().body), GetParam().expected);
}

constexpr const char* kXW = "x: bf16[M, 8], w: bf16[8, 4]";

const FusedCase kTails[] = {
    {"bare", kXW, "y = x @ w; return y", "gemm y = acc"},
    {"bias_activation_residual", "x: bf16[M, 8], w: bf16[8, 4], b: bf16[4], r: bf16[M, 4]",
     "y = silu(x @ w + b) * r; return y", "gemm y = silu(acc + row(b)) * full(r)"},
    {"chain_of_many", kXW, "y = tanh(exp(-relu(x @ w * 2) + 1)) / 3; return y",
     "gemm y = tanh(exp(-relu(acc * 2) + 1)) / 3"},
    {"parameters", kXW, "y = leaky_relu(clamp(x @ w, max=6), alpha=0.2); return y",
     "gemm y = leaky_relu(clamp(acc, max=6), alpha=0.2)"},
    {"shared_subexpression", kXW, "h = x @ w + 1; y = h * sigmoid(h); return y",
     "gemm y = u0 * sigmoid(u0) where u0 = acc + 1"},
    {"comparison_and_where", kXW, "h = x @ w; y = where(h > 0, h, h * 0.1); return y",
     "gemm y = where(acc > 0, acc, acc * 0.1)"},
    {"product_as_right_operand", kXW, "y = 1 - x @ w; return y", "gemm y = 1 - acc"},
    {"scaled_matmul", "x: f8e4m3[M, 8], w: f8e4m3[8, 4], sa: f32[M, 1], sb: f32[4], s: f32[]",
     "y = cast((x @ w) * sa * sb * s, bf16); return y",
     "gemm y = cast(acc * col(sa) * row(sb) * scalar(s), bf16)"},
    {"integers", "x: s8[M, 8], w: s8[8, 4], s: f32[4]", "y = cast(x @ w, f32) * s; return y",
     "gemm y = cast(acc, f32) * row(s)"},
    {"integer_arithmetic", "x: u8[M, 8], w: s8[8, 4], z: s32[4]", "y = x @ w - z; return y",
     "gemm y = acc - row(z)"},
};
INSTANTIATE_TEST_SUITE_P(Tails, Fused, ::testing::ValuesIn(kTails),
                         [](const auto& info) { return info.param.name; });

const FusedCase kCasts[] = {
    {"cast_in_the_tail", kXW, "y = cast(relu(cast(x @ w, f32)), f16); return y",
     "gemm y = cast(relu(cast(acc, f32)), f16)"},
    {"compute_type_per_node", "x: bf16[M, 8], w: bf16[8, 4], b: bf16[4]",
     "y = relu(add(x @ w, b, compute=bf16) * 2); return y",
     "gemm y = relu(add(acc, row(b), compute=bf16) * 2)"},
    {"saturating", kXW, "y = cast(x @ w, s8, saturate=true); return y",
     "gemm y = cast(acc, s8, saturate=true)"},
    {"of_an_operand", "x: bf16[M, 8], w: bf16[8, 4], b: f32[4], r: f16[M, 4]",
     "y = x @ w + cast(b, bf16) + cast(r, bf16); return y",
     "gemm y = acc + cast(row(b), bf16) + cast(full(r), bf16)"},
};
INSTANTIATE_TEST_SUITE_P(Casts, Fused, ::testing::ValuesIn(kCasts),
                         [](const auto& info) { return info.param.name; });

const FusedCase kRoles[] = {
    {"row", "x: f32[4, 4], w: f32[4, 4], b: f32[4]", "y = x @ w + b; return y",
     "gemm y = acc + row(b)"},
    {"column_where_m_is_n", "x: f32[4, 4], w: f32[4, 4], b: f32[4]",
     "y = x @ w + reshape(b, [4, 1]); return y", "gemm y = acc + col(b)"},
    {"both_of_one_source", "x: f32[4, 4], w: f32[4, 4], b: f32[4]",
     "y = x @ w + b * reshape(b, [4, 1]); return y", "gemm y = acc + row(b[0:]) * col(b[0:])"},
    {"matrix_row_and_column", "x: f32[M, 8], w: f32[8, 4], r: f32[1, 4], c: f32[M, 1]",
     "y = (x @ w + r) * c; return y", "gemm y = (acc + row(r)) * col(c)"},
    {"scalars", "x: f32[M, 8], w: f32[8, 4], s: f32[], t: f32[1, 1]", "y = x @ w * s + t; return y",
     "gemm y = acc * scalar(s) + scalar(t)"},
    {"repeated", "x: f32[M, 8], w: f32[8, 4], r: f32[M, 4]", "y = (x @ w + r) * r + r; return y",
     "gemm y = (acc + full(r)) * full(r) + full(r)"},
    {"padded_and_broadcast_strides",
     "x: f32[M, 8; 12, 1], w: f32[8, 4], r: f32[M, 4; 7, 1], b: f32[M, 4; 0, 1]",
     "y = x @ w * r + b; return y", "gemm y = acc * full(r) + row(b)"},
    {"explicit_broadcast", "x: f32[M, 8], w: f32[8, 4], b: f32[4]",
     "y = x @ w + broadcast(b, [M, 4]); return y", "gemm y = acc + row(b)"},
    {"transposed_residual", "x: f32[M, 8], w: f32[8, 4], r: f32[4, M]",
     "y = x @ w + transpose(r); return y", "gemm y = acc + full(r)"},
    {"sliced_residual", "x: f32[M, 8], w: f32[8, 4], r: f32[M, 10]",
     "y = x @ w + r[:, 2:10:2]; return y", "gemm y = acc + full(r)"},
    {"the_input_itself", "x: f32[8, 8], w: f32[8, 8]", "y = x @ w + x; return y",
     "gemm y = acc + full(x)"},
};
INSTANTIATE_TEST_SUITE_P(Roles, Fused, ::testing::ValuesIn(kRoles),
                         [](const auto& info) { return info.param.name; });

const FusedCase kViews[] = {
    {"same_shape_reshape", kXW, "y = relu(reshape(x @ w, [M, 4])); return y", "gemm y = relu(acc)"},
    {"leading_axes_split", "x: f32[2*S, 8], w: f32[8, 4], r: f32[2, S, 4]",
     "y = relu(reshape(x @ w, [2, S, 4])) + r; return y", "gemm y = relu(acc) + full(r)"},
    {"leading_axes_merged", "x: f32[2, S, 8], w: f32[8, 4], r: f32[2*S, 4]",
     "y = relu(reshape(x @ w, [2*S, 4])) + r; return y", "gemm y = relu(acc) + full(r)"},
    {"heads", "x: f32[M, 8], w: f32[8, 6], r: f32[3, 2]",
     "y = reshape(x @ w, [M, 3, 2]) + r; return y", "gemm y = acc + row(r)"},
    {"reshape_at_the_end", kXW, "y = reshape(relu(x @ w), [M, 2, 2]); return y",
     "gemm y = relu(acc)"},
    {"view_read_elsewhere", kXW,
     "h = reshape(relu(x @ w), [M, 2, 2]); y = reduce_max(h, axes=[1]); return y",
     "gemm h = relu(acc); single y"},
};
INSTANTIATE_TEST_SUITE_P(Views, Fused, ::testing::ValuesIn(kViews),
                         [](const auto& info) { return info.param.name; });

const FusedCase kOutputs[] = {
    {"raw_accumulator_too", kXW, "h = x @ w; y = relu(h); return h, y",
     "gemm h = acc, y = relu(acc)"},
    {"escaping_intermediate", kXW, "h = x @ w + 1; y = relu(h); return y, h",
     "gemm h = acc + 1, y = relu(acc + 1)"},
    {"read_by_another_region", "x: f32[M, 8], w: f32[8, 8], v: f32[8, 8]",
     "h = relu(x @ w); y = h @ v + h; return y", "gemm h = relu(acc); gemm y = acc + full(h)"},
    {"four_outputs", kXW, "a = x @ w; b = relu(a); c = exp(b); d = tanh(c); return a, b, c, d",
     "gemm a = acc, b = relu(acc), c = exp(relu(acc)), d = tanh(exp(relu(acc)))"},
    {"five_do_not_fit", kXW,
     "a = x @ w; b = relu(a); c = exp(b); d = tanh(c); e = abs(d); return a, b, c, d, e",
     "gemm a = acc, b = relu(acc), c = exp(relu(acc)), d = tanh(exp(relu(acc))); pointwise e = "
     "abs(full(d))"},
    {"twice_the_same_result", kXW, "y = relu(x @ w); return y, z = y", "gemm y = relu(acc)"},
};
INSTANTIATE_TEST_SUITE_P(Outputs, Fused, ::testing::ValuesIn(kOutputs),
                         [](const auto& info) { return info.param.name; });

const FusedCase kReductions[] = {
    {"rows", kXW, "y = relu(x @ w); m = amax(y, axes=[1]); return y, m",
     "gemm y = relu(acc), m = amax of each row of relu(acc)"},
    {"columns", kXW, "m = sum(x @ w, axes=[0], keepdims=true); return m",
     "gemm m = sum of each column of acc"},
    {"means", "x: f32[M, 8], w: f32[8, 4]", "h = x @ w; m = mean(h, axes=[1]); return h, m",
     "gemm h = acc, m = mean of each row of acc"},
    {"narrow_means", "x: bf16[M, 8], w: bf16[8, 4]", "m = mean(x @ w, axes=[1]); return m",
     "gemm m = mean of each row of acc"},
    {"matrices_of_a_batch", "x: f32[E, M, 8], w: f32[E, 8, 4], g: f32[E, M, 1]",
     "y = sum(x @ w * g, axes=[0]); return y", "gemm y = sum over the matrices of acc * col(g)"},
    {"some_axes_of_a_batch", "x: f32[A, E, M, 8], w: f32[E, 8, 4]",
     "y = mean(relu(x @ w), axes=[1]); return y", "gemm y = mean over the matrices of relu(acc)"},
    {"all", kXW, "m = reduce_max(abs(x @ w)); return m", "gemm m = reduce_max of all of abs(acc)"},
    {"batched_columns", "x: f32[B, M, 8], w: f32[8, 4]",
     "m = reduce_min(x @ w, axes=[1]); return m", "gemm m = reduce_min of each column of acc"},
    {"softmax", kXW, "y = softmax(x @ w); return y",
     "gemm t3 = cast(acc, f32), t4 = reduce_max of each row of cast(acc, f32); pointwise t6 = "
     "exp(full(t3) - col(t4)); single t7; pointwise y = cast(full(t6) / col(t7), bf16)"},
};
INSTANTIATE_TEST_SUITE_P(Reductions, Fused, ::testing::ValuesIn(kReductions),
                         [](const auto& info) { return info.param.name; });

const FusedCase kBatches[] = {
    {"weights_shared", "x: f32[B, S, 8], w: f32[8, 4], b: f32[4]", "y = x @ w + b; return y",
     "gemm y = acc + row(b)"},
    {"of_both", "x: f32[B, S, 8], w: f32[B, 8, 4], r: f32[B, 1, 4], c: f32[S, 1]",
     "y = x @ w * r + c; return y", "gemm y = acc * row(r) + col(c)"},
    {"broadcast_over_heads", "q: f32[B, H, S, 8], k: f32[B, 1, T, 8], mask: f32[S, T]",
     "y = q @ transpose(k) * 0.125 + mask; return y", "gemm y = acc * 0.125 + full(mask)"},
};
INSTANTIATE_TEST_SUITE_P(Batches, Fused, ::testing::ValuesIn(kBatches),
                         [](const auto& info) { return info.param.name; });

const FusedCase kConstants[] = {
    {"literal", kXW, "y = x @ w * 0.3; return y", "gemm y = acc * 0.3"},
    {"one_element_tensor", kXW, "y = x @ w * constant(bf16[1], [0.25]); return y",
     "gemm y = acc * 0.25"},
    {"tensor", kXW, "y = x @ w + constant(bf16[4], [1, 2, 3, 4]); return y",
     "gemm y = acc + row(t3)"},
    {"equal_steps_are_one", kXW, "h = x @ w; y = (h + 2) * (h + 2); return y",
     "gemm y = u0 * u0 where u0 = acc + 2"},
    {"equal_nans_are_one", kXW, "h = x @ w; y = (h + nan) * (h + nan); return y",
     "gemm y = u0 * u0 where u0 = acc + nan"},
    {"zeros_of_both_signs_are_two", kXW, "h = x @ w; y = (h + 0) * (h + -0); return y",
     "gemm y = (acc + 0) * (acc + -0)"},
};
INSTANTIATE_TEST_SUITE_P(Constants, Fused, ::testing::ValuesIn(kConstants),
                         [](const auto& info) { return info.param.name; });

const FusedCase kChains[] = {
    {"two_products", "x: f32[M, 8], w: f32[8, 6], v: f32[6, 4]",
     "y = tanh(relu(x @ w) @ v); return y", "gemm t4 = relu(acc); gemm y = tanh(acc)"},
    {"sum_of_two_tails", "x: f32[M, 8], z: f32[M, 8], w: f32[8, 4], v: f32[8, 4]",
     "y = relu(x @ w) + tanh(z @ v); return y",
     "gemm t7 = tanh(acc); gemm y = relu(acc) + full(t7)"},
    {"operand_computed_later", "x: f32[M, 8], w: f32[8, 4], p: f32[M, 4], q: f32[M, 4]",
     "a = x @ w; t = exp(p) + q; y = a + t; return y, t",
     "pointwise t = exp(full(p)) + full(q); gemm y = acc + full(t)"},
    {"only_the_region_reads_the_operand", "x: f32[M, 8], w: f32[8, 4], p: f32[M, 4], q: f32[4]",
     "a = x @ w; t = exp(p) + q * 2; y = a + t; return y",
     "gemm y = acc + (exp(full(p)) + row(q) * 2)"},
    {"expensive_small_operand_is_computed_once", "x: f32[M, 8], w: f32[8, 4], q: f32[4]",
     "y = x @ w + exp(q); return y", "pointwise t4 = exp(row(q)); gemm y = acc + row(t4)"},
    {"gates_of_two_products", "x: f32[M, 8], h: f32[M, 4], w: f32[8, 12], r: f32[4, 12]",
     "p = x @ w; q = h @ r; n = tanh(p[:, :4] + relu(p[:, 4:8]) * q[:, :4]); "
     "z = sigmoid(p[:, 8:] + q[:, 8:]); y = n + z * (h - n); return y",
     "gemm p = acc; gemm q = acc; pointwise y = u0 + sigmoid(full(p[8:]) + full(q[8:])) * (full(h) "
     "- "
     "u0) where u0 = tanh(full(p[0:]) + relu(full(p[4:])) * full(q[0:]))"},
    {"a_gate_that_is_a_result_stays_apart",
     "x: f32[M, 8], h: f32[M, 4], w: f32[8, 12], r: f32[4, 12]",
     "p = x @ w; q = h @ r; n = tanh(p[:, :4] + relu(p[:, 4:8]) * q[:, :4]); "
     "z = sigmoid(p[:, 8:] + q[:, 8:]); y = n + z * (h - n); return y, z",
     "gemm p = acc; gemm q = acc; pointwise z = sigmoid(full(p) + full(q)); pointwise y = u0 + "
     "full(z) * (full(h) - u0) where u0 = tanh(full(p[0:]) + relu(full(p[4:])) * full(q))"},
    {"two_regions_never_wait_for_each_other", "x: f32[M, 8], w: f32[8, 4], v: f32[8, 4]",
     "p = x @ w; q = exp(x) @ v; a = relu(p); b = q + a; c = tanh(q); d = a * c; return b, d",
     "pointwise t4 = exp(full(x)); gemm q = acc, c = tanh(acc); gemm b = full(q) + relu(acc), d = "
     "relu(acc) * full(c)"},
};
INSTANTIATE_TEST_SUITE_P(Chains, Fused, ::testing::ValuesIn(kChains),
                         [](const auto& info) { return info.param.name; });

const FusedCase kPointwise[] = {
    {"chain", "x: f32[M, 4]", "y = tanh(exp(x) + 1); return y",
     "pointwise y = tanh(exp(full(x)) + 1)"},
    {"dag_with_two_results", "x: f32[M, 4], b: f32[4]",
     "t = x + b; y = exp(t); z = t * y; return y, z",
     "pointwise y = exp(full(x) + row(b)), z = u0 * exp(u0) where u0 = full(x) + row(b)"},
    {"vector", "x: f32[N]", "y = exp(x) * 2; return y", "pointwise y = exp(row(x)) * 2"},
    {"scalar", "x: f32[]", "y = exp(x) * 2; return y", "pointwise y = exp(scalar(x)) * 2"},
    {"small_operand_taken_in", "x: f32[M, 4], b: f32[4]", "y = x + -b * 2; return y",
     "pointwise y = full(x) + -row(b) * 2"},
    {"transposed_operand", "x: f32[M, 4], z: f32[4, M]", "y = x + transpose(exp(z)); return y",
     "pointwise t2 = exp(full(z)); pointwise y = full(x) + full(t2)"},
    {"reductions_are_single", "x: f32[M, 4]",
     "y = x - reduce_max(x, axes=[1], keepdims=true); return y",
     "single t1; pointwise y = full(x) - col(t1)"},
    {"results_of_moves", "x: f32[M, 4]", "y = transpose(x); z = concat(x, x); return y, z",
     "single y; single z"},
    {"no_elements", "x: f32[0, 8], w: f32[8, 8], c: f32[0, 1]",
     "t = x @ w; y = c / (gelu(t[:, ::2]) * t[:, 1::2]); return y",
     "gemm t = acc; pointwise y = col(c) / (gelu(full(t[0::2])) * full(t[1::2]))"},
    {"no_elements_under_another_shape", "x: f32[0, 8], w: f32[8, 8]",
     "y = relu(reshape(x @ w, [0, 4]) + 1); return y",
     "gemm t2 = acc; single t3; pointwise y = relu(full(t3) + 1)"},
    {"an_input_as_output", "x: f32[M, 4]", "y = x + 1; return y, x", "pointwise y = full(x) + 1"},
};
INSTANTIATE_TEST_SUITE_P(Pointwise, Fused, ::testing::ValuesIn(kPointwise),
                         [](const auto& info) { return info.param.name; });

TEST(Unfused, EveryOpAlone) {
  const Partition result =
      partition_of(graph_text("x: f32[M, 8], w: f32[4, 8], b: f32[4]",
                              "y = relu(x @ transpose(w) + b); m = amax(y, axes=[1]); return m"),
                   {.fuse = false});
  EXPECT_EQ(
      summary(result),
      "gemm t4 = acc; pointwise t5 = full(t4) + row(b); pointwise y = relu(full(t5)); single m");
}

// Reductions that an executor with few reductions includes.
std::string with_amax(const std::string& parameters, const std::string& results) {
  return summary(partition_of(graph_text(parameters, "y = x @ w; return " + results),
                              {.fuse = true, .reductions = Reductions::Amax}));
}

TEST(AmaxAlone, OneOfAWholeMatrixInF32) {
  const std::string singles = "x: f32[M, 8], w: f32[8, 4]";
  EXPECT_EQ(with_amax(singles, "y, amax(y)"), "gemm y = acc, out1 = amax of all of acc");
  EXPECT_EQ(with_amax(singles, "amax(y), amax(y * 2)"),
            "gemm out0 = amax of all of acc, t5 = acc * 2; single out1");
  for (const char* reduction : {"sum(y)", "reduce_max(y)", "amax(y, axes=[1])"})
    EXPECT_EQ(with_amax(singles, "y, " + std::string(reduction)), "gemm y = acc; single out1")
        << reduction;
  EXPECT_EQ(with_amax("x: bf16[M, 8], w: bf16[8, 4]", "y, amax(y)"), "gemm y = acc; single out1");
  EXPECT_EQ(with_amax("x: f32[B, M, 8], w: f32[B, 8, 4]", "y, amax(y)"),
            "gemm y = acc; single out1");
}

}  // namespace
}  // namespace attacca::fuse::testing
