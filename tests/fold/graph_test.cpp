// Whole graphs: dtypes, shapes, names, values with several users, real blocks.
#include "fold_testing.hpp"

namespace attacca::fold {
namespace {

TEST(FoldGraph, LlamaMlpIsSwiglu) {
  expect_graph(
      R"((x: bf16[M, 4096], w_gate: bf16[11008, 4096], w_up: bf16[11008, 4096]) {
        g = matmul(x, transpose(w_gate))
        u = matmul(x, transpose(w_up))
        return g / (1 + exp(-g)) * u
      })",
      R"((x: bf16[M, 4096], w_gate: bf16[11008, 4096], w_up: bf16[11008, 4096]) {
        g = matmul(x, transpose(w_gate))
        u = matmul(x, transpose(w_up))
        return swiglu(g, u)
      })");
}

constexpr const char* kGptOss = R"((x: bf16[M, 64], w: bf16[64, 128], b: bf16[128]) {{
  h = x @ w + b
  gate = clamp(h[:, ::2], max={0})
  up = clamp(h[:, 1::2], min=-{0}, max={0})
  glu = gate * sigmoid(gate * {1})
  return (up + {2}) * glu
}})";

std::string gpt_oss(const char* limit, const char* alpha, const char* one) {
  std::string text = kGptOss;
  const auto replace = [&](const std::string& slot, const std::string& with) {
    for (size_t at; (at = text.find(slot)) != std::string::npos;)
      text.replace(at, slot.size(), with);
  };
  replace("{{", "{"), replace("}}", "}");
  replace("{0}", limit), replace("{1}", alpha), replace("{2}", one);
  return text;
}

TEST(FoldGraph, GptOssIsClampedSwiglu) {
  expect_graph(gpt_oss("7.0", "1.702", "1"),
               R"((x: bf16[M, 64], w: bf16[64, 128], b: bf16[128]) {
        h = x @ w + b
        return clamped_swiglu(h[:, ::2], h[:, 1::2])
      })");
}

TEST(FoldGraph, GptOssConstantsAreCaptured) {
  expect_graph(gpt_oss("5.5", "1.25", "0.5"),
               R"((x: bf16[M, 64], w: bf16[64, 128], b: bf16[128]) {
        h = x @ w + b
        return clamped_swiglu(h[:, ::2], h[:, 1::2], alpha=1.25, limit=5.5, one=0.5)
      })");
}

TEST(FoldGraph, GptOssWithDifferentLimitsIsNotOneOp) {
  expect_graph(R"((g: f32[N], u: f32[N]) {
        gate = clamp(g, max=7)
        return gate * sigmoid(gate * 1.702) * (clamp(u, min=-6, max=7) + 1)
      })",
               R"((g: f32[N], u: f32[N]) {
        gate = clamp(g, max=7)
        return swiglu(gate, clamp(u, min=-6, max=7) + 1, alpha=1.702)
      })");
}

TEST(FoldGraph, PackedHalvesAreSwiglu) {
  expect_graph("(h: bf16[M, 128]) { g, u = split(h, 2, axis=-1) ; return u * (g * sigmoid(g)) }",
               "(h: bf16[M, 128]) { g, u = split(h, 2, axis=-1) ; return swiglu(g, u) }");
}

TEST(FoldGraph, BroadcastBiasInsideX) {
  expect_graph("(x: bf16[M, N], b: bf16[N]) { return (x + b) / (1 + exp(-(x + b))) }",
               "(x: bf16[M, N], b: bf16[N]) { return silu(x + b) }");
}

TEST(FoldGraph, AScaleOfAnotherShapeIsNoGate) {
  expect_graph("(x: f32[M, N], s: f32[N]) { return x * sigmoid(x) * s }",
               "(x: f32[M, N], s: f32[N]) { return silu(x) * s }");
}

TEST(FoldGraph, AValueUsedElsewhereStays) {
  expect_graph("(x: f32[N]) { s = sigmoid(x) ; return x * s, s }",
               "(x: f32[N]) { s = sigmoid(x) ; return silu(x), s }");
  expect_graph("(x: f32[N]) { e = exp(-x) ; return x / (1 + e), e * 3 }",
               "(x: f32[N]) { e = exp(-x) ; return silu(x), e * 3 }");
}

TEST(FoldGraph, NamesOfRootsAndOutputsAreKept) {
  expect_graph("(x: f32[N]) { act = x * sigmoid(x) ; y = act + 1 ; return result = y, act }",
               "(x: f32[N]) { act = silu(x) ; y = act + 1 ; return result = y, act }");
}

TEST(FoldGraph, DeadNodesVanishAndInputsStay) {
  expect_graph("(x: f32[N], unused: f32[N]) { d = exp(x) ; return x * 2 }",
               "(x: f32[N], unused: f32[N]) { return x * 2 }");
}

TEST(FoldGraph, IntegersDoNotFold) {
  expect_unchanged("(x: s32[N]) { return max(x, 0) }");
  expect_unchanged("(x: s32[N]) { return x * x }");
  expect_unchanged("(x: s64[N]) { return min(max(x, -2), 3) }");
}

TEST(FoldGraph, EveryFloatFolds) {
  for (const char* dtype : {"f64", "f32", "f16", "bf16"}) {
    const std::string head = std::string("(x: ") + dtype + "[N]) { return ";
    expect_graph(head + "x / (1 + exp(-x)) }", head + "silu(x) }");
  }
}

TEST(FoldGraph, CastsAreOpaque) {
  expect_unchanged("(x: bf16[N]) { return x * cast(sigmoid(cast(x, f32)), bf16) }");
  expect_graph("(x: bf16[N]) { v = cast(x, f32) ; return cast(v * sigmoid(v), bf16) }",
               "(x: bf16[N]) { v = cast(x, f32) ; return cast(silu(v), bf16) }");
}

TEST(FoldGraph, MixedDtypesDoNotFold) {
  expect_unchanged("(x: bf16[N], y: f32[N]) { return silu(x) * y }");
  expect_unchanged("(x: bf16[N], y: f32[N]) { return y * sigmoid(x) }");
}

TEST(FoldGraph, DeclaredComputeTypesAreRespected) {
  expect_unchanged("(x: bf16[N]) { return x * sigmoid(x, compute=bf16) }");
  expect_unchanged("(x: bf16[N]) { return mul(x, sigmoid(x), compute=bf16) }");
  expect_graph("(x: bf16[N]) { return mul(x, sigmoid(x, compute=bf16), compute=bf16) }",
               "(x: bf16[N]) { return silu(x, compute=bf16) }");
}

TEST(FoldGraph, LogicAndReductionsAreLeaves) {
  expect_graph(
      "(x: f32[M, N]) { m = mean(x, axes=[-1], keepdims=true) ; "
      "d = x - m ; return d * sigmoid(d) }",
      "(x: f32[M, N]) { m = mean(x, axes=[-1], keepdims=true) ; "
      "d = x - m ; return silu(d) }");
}

TEST(FoldGraph, AResultThatIsBroadcastStays) {
  // z adds nothing but its shape.
  expect_unchanged("(x: f32[N], z: f32[M, N]) { return x * sigmoid(x + z - z) }");
}

// x * half * (1 + erf(x * c)) with tensor constants of the dtype, as ONNX files hold them.
ir::Graph gelu_of_tensors(ir::DType dtype, double root_half) {
  ir::Graph graph;
  const auto x = *graph.input("x", {dtype, {ir::Dim::symbol("M"), 8}});
  const auto scalar = [&](double value) {
    return graph.constant(ir::Tensor::of(dtype, {1}, {value}));
  };
  const auto erf = *graph.add(ir::Op::Erf, {*graph.add(ir::Op::Mul, {x, scalar(root_half)})});
  const auto sum = *graph.add(ir::Op::Add, {scalar(1), erf});
  const auto half = *graph.add(ir::Op::Mul, {x, scalar(0.5)});
  graph.add_output(*graph.add(ir::Op::Mul, {half, sum}));
  return graph;
}

TEST(FoldGraph, RoundedTensorConstantsCount) {
  for (const ir::DType dtype : {ir::DType::F32, ir::DType::F16, ir::DType::BF16})
    EXPECT_EQ(printed(fold(gelu_of_tensors(dtype, 0.7071067811865476)).graph), "gelu(x)");
  const auto other = printed(fold(gelu_of_tensors(ir::DType::BF16, 0.711)).graph);
  EXPECT_EQ(other.find("gelu"), std::string::npos) << other;
}

TEST(FoldGraph, ATensorConstantOfHigherRankStays) {
  ir::Graph graph;
  const auto x = *graph.input("x", {ir::DType::F32, {ir::Dim(8)}});
  const auto zero = graph.constant(ir::Tensor::of(ir::DType::F32, {1, 1, 1}, {0}));
  graph.add_output(*graph.add(ir::Op::Max, {x, zero}));
  const ir::Graph result = fold(graph).graph;
  EXPECT_EQ(result[result.outputs()[0].value].op, ir::Op::Max);
}

TEST(FoldGraph, CapturedTensorConstantsKeepTheirValue) {
  ir::Graph graph;
  const auto x = *graph.input("x", {ir::DType::BF16, {ir::Dim(8)}});
  const auto slope = graph.constant(ir::Tensor::of(ir::DType::BF16, {}, {0.1667}));
  graph.add_output(*graph.add(ir::Op::Max, {x, *graph.add(ir::Op::Mul, {x, slope})}));
  EXPECT_EQ(printed(fold(graph).graph), "leaky_relu(x, alpha=0.1669921875)");
}

TEST(FoldGraph, AppliedNamesRulesAndResults) {
  const FoldResult result = fold(graph_of(
      "graph g(x: f32[M, N], b: f32[N]) { v = x + b ; return v / (1 + exp(-v)), max(v, 0) }"));
  ASSERT_EQ(result.applied.size(), 2u);
  EXPECT_EQ(result.applied[0].rule, "silu");
  EXPECT_EQ(result.applied[0].result, "silu(v)");
  EXPECT_EQ(result.applied[1].rule, "relu");
}

TEST(FoldGraph, FoldedTwiceIsFoldedOnce) {
  const ir::Graph once = fold(graph_of("graph g" + gpt_oss("7", "1.702", "1"))).graph;
  const FoldResult twice = fold(once);
  EXPECT_EQ(ir::print_graph(twice.graph), ir::print_graph(once));
  EXPECT_TRUE(twice.applied.empty());
}

}  // namespace
}  // namespace attacca::fold
