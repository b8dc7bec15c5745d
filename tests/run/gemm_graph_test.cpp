#include "run/gemm_graph.hpp"

#include "gtest/gtest.h"

#include "ir/text/text.hpp"

namespace attacca::run {
namespace {

// The graph's text, or what and where of the error.
std::string graph_of(const std::string& epilogue, GemmForm form = {}) {
  form.epilogue = epilogue;
  const auto graph = gemm_graph(form);
  return graph ? ir::print_graph(*graph) : graph.error().what;
}

TEST(GemmGraph, SaysWhatTheTextMeans) {
  EXPECT_EQ(graph_of("silu(acc + row(bias)) * full(res)"),
            "graph gemm(a: bf16[M, K], b: bf16[N, K], bias: bf16[N], res: bf16[M, N]) {\n"
            "  return silu(matmul(a, transpose(b)) + bias) * res\n}\n");
  EXPECT_EQ(graph_of("acc * col(scale: f32)", {.b_is_nk = false, .text = {}}),
            "graph gemm(a: bf16[M, K], b: bf16[K, N], scale: f32[M, 1]) {\n"
            "  return cast(matmul(a, b) * scale, bf16)\n}\n");
}

TEST(GemmGraph, TheTextsProductIsTheGraphs) {
  const auto product = [](ir::DType input) {
    GemmForm form{.input = input, .text = {}};
    form.text.results = {};
    if (const auto set = set_product(form); !set) return set.error().what;
    form.epilogue = "acc";
    const auto graph = gemm_graph(form);
    EXPECT_TRUE(graph) << graph.error().what;
    const ir::Value result = graph->outputs()[0].value;
    EXPECT_EQ((*graph)[result].op, ir::Op::MatMul);
    return to_string(graph->type(result));
  };
  using ir::DType;
  EXPECT_EQ(product(DType::F64), "f64[M, N]");
  EXPECT_EQ(product(DType::F32), "f32[M, N]");
  EXPECT_EQ(product(DType::BF16), "bf16[M, N]");
  EXPECT_EQ(product(DType::F16), "f16[M, N]");
  EXPECT_EQ(product(DType::F8E4M3), "f32[M, N]");
  EXPECT_EQ(product(DType::F8E5M2), "f32[M, N]");
  EXPECT_EQ(product(DType::S8), "s32[M, N]");
  EXPECT_EQ(product(DType::U8), "s32[M, N]");
  EXPECT_EQ(product(DType::Bool), "matmul of bool with bool");
}

TEST(GemmGraph, BatchesAAndFullOperands) {
  const std::string text = graph_of("acc + row(bias) + full(res)", {.batched = true, .text = {}});
  EXPECT_NE(text.find("a: bf16[B, M, K], b: bf16[N, K], bias: bf16[N], res: bf16[B, M, N]"),
            std::string::npos)
      << text;
}

TEST(GemmGraph, GatesReadTwoProducts) {
  const auto with = [](std::string_view layout) {
    GemmForm form;
    EXPECT_TRUE(set_layout(form, layout));
    return graph_of("silu(acc0) * acc1", form);
  };
  EXPECT_EQ(with("two"),
            "graph gemm(a: bf16[M, K], b: bf16[N, K], b1: bf16[N, K]) {\n"
            "  return silu(matmul(a, transpose(b))) * matmul(a, transpose(b1))\n}\n");
  EXPECT_EQ(with("halves"),
            "graph gemm(a: bf16[M, K], b: bf16[2*N, K]) {\n"
            "  t0 = matmul(a, transpose(b))\n"
            "  return silu(t0[:, :N]) * t0[:, N:]\n}\n");
  EXPECT_EQ(with("rows"),
            "graph gemm(a: bf16[M, K], b: bf16[2*N, K]) {\n"
            "  t0 = matmul(a, transpose(b))\n"
            "  return silu(t0[:, ::2]) * t0[:, 1::2]\n}\n");
  EXPECT_EQ(with("groups two"),
            "graph gemm(a: bf16[M, K], b: bf16[E, N, K], b1: bf16[E, N, K], offsets: s32[E]) {\n"
            "  return silu(grouped_matmul(a, transpose(b), offsets)) * grouped_matmul(a, "
            "transpose(b1), offsets)\n}\n");
  for (const char* layout :
       {"nk", "kn", "two", "halves", "rows", "groups nk", "groups kn", "groups rows"}) {
    GemmForm form;
    EXPECT_TRUE(set_layout(form, layout)) << layout;
  }
  GemmForm form;
  EXPECT_EQ(set_layout(form, "mn").error().what, "unknown layout mn");
}

TEST(GemmGraph, RefusesGatesThatReadOneHalf) {
  for (const Gate gate : {Gate::Two, Gate::Halves, Gate::Rows}) {
    GemmForm form;
    form.gate = gate;
    EXPECT_EQ(graph_of("silu(acc + row(bias))", form),
              "the weights lie as those of a gate, and the epilogue does not read acc1");
    EXPECT_EQ(graph_of("silu(acc1)", form), "acc1 without acc0");
  }
}

TEST(GemmGraph, RefusesWhatIsNoEpilogueOfOneProduct) {
  EXPECT_EQ(graph_of("acc0 * silu(acc1)"), "acc1 without a second product");
  for (const char* bad :
       {"", "acc +", "acc + unknown(x)", "acc + row(bias", "acc + row(a)", "acc + full(b)"}) {
    GemmForm form;
    form.epilogue = bad;
    const auto graph = gemm_graph(form);
    ASSERT_FALSE(graph) << bad << "\n" << ir::print_graph(*graph);
    EXPECT_NE(graph.error().what, "") << bad;
  }
}

}  // namespace
}  // namespace attacca::run
