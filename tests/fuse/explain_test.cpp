// What people, programs and Graphviz read, against golden files. UPDATE_GOLDEN=1 rewrites them.
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "fuse_testing.hpp"

namespace attacca::fuse::testing {
namespace {

// tests/fuse/golden/TEST.EXTENSION
void expect_golden(const std::string& text, const std::string& extension) {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string path =
      std::string(ATTACCA_SOURCE_DIR) + "/tests/fuse/golden/" + info->name() + "." + extension;
  if (std::getenv("UPDATE_GOLDEN")) {
    std::ofstream(path) << text;
    return;
  }
  std::ostringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, golden.str()) << path;
}

constexpr const char* kLlama = R"(graph llama_mlp(x: bf16[M, 4096], w_gate: bf16[11008, 4096],
                w_up: bf16[11008, 4096], w_down: bf16[4096, 11008], res: bf16[M, 4096]) {
  h = silu(x @ transpose(w_gate)) * (x @ transpose(w_up))
  y = h @ transpose(w_down) + res
  return y
})";

TEST(Explain, LlamaMlp) {
  const Partition result = partition_of(kLlama);
  expect_golden(explain_text(result), "txt");
  expect_golden(json::dump(explain_json(result)) + "\n", "json");
  expect_golden(explain_dot(result), "dot");
}

TEST(Explain, GptOssExpert) {
  const Partition result = partition_of(R"(graph expert(x: bf16[M, 2880], w: bf16[2880, 5760],
                b: bf16[5760], w_out: bf16[2880, 2880], b_out: bf16[2880]) {
  h = x @ w + b
  g = clamp(h[:, ::2], max=7.0)
  l = clamp(h[:, 1::2], min=-7.0, max=7.0)
  a = g * sigmoid(1.702 * g) * (l + 1.0)
  return y = a @ w_out + b_out
})");
  expect_golden(explain_text(result), "txt");
}

TEST(Explain, RefusalsOfAnAttentionBlock) {
  const Partition result = partition_of(R"(graph attention(q: f16[B, H, S, 64],
                k: f16[B, H, S, 64], v: f16[B, H, S, 64], mask: f16[S, S]) {
  scores = q @ transpose(k) * 0.125 + mask
  p = softmax(scores)
  return y = p @ v, weights = p
})");
  expect_golden(explain_text(result), "txt");
  expect_golden(json::dump(explain_json(result)) + "\n", "json");
}

TEST(Explain, UserKernel) {
  const Partition result = partition_of(R"(graph own(x: bf16[M, 64], w: bf16[64, 128],
                bias: bf16[128], res: bf16[M, 128]) {
  h = kernel("gemm.cu", x, w, bf16[M, 128], s32(M), f32(0.5), entry="my::gemm<64>",
             grid=[ceildiv(M, 64), 2], block=[256], shared=1024)
  y = silu(h + bias) * res
  return y, total = sum(y, axes=[1])
})");
  expect_golden(explain_text(result), "txt");
  expect_golden(json::dump(explain_json(result)) + "\n", "json");
  expect_golden(explain_dot(result), "dot");
}

TEST(Explain, UnfusedLlamaMlp) {
  expect_golden(explain_text(partition_of(kLlama, {.fuse = false})), "txt");
}

TEST(Explain, JsonIsReadBack) {
  const auto text = json::dump(explain_json(partition_of(kLlama)));
  const auto value = json::parse(text);
  ASSERT_TRUE(value) << to_string(value.error());
  EXPECT_EQ(json::dump(*value), text);
  EXPECT_EQ(value->find("format")->as<std::string>(), "attacca.explain/1");
  EXPECT_EQ(value->find("regions")->as<json::Value::Array>().size(), 2u);
}

TEST(Explain, DrawsAConstantBesideEachReader) {
  ir::Graph graph;
  const ir::Value x = *graph.input("x", {ir::DType::F32, {ir::Dim(2)}});
  const ir::Value w = graph.constant(*ir::Tensor::make(ir::DType::F32, {2}));
  const std::string path = "_a_module_wé_and_a_path_that_is_far_too_long_to_read";
  ASSERT_TRUE(graph.set_name(w, path));
  const ir::Value y = *graph.add(ir::Op::Add, {x, w});
  graph.add_output(*graph.add(ir::Op::Sum, {*graph.add(ir::Op::Mul, {y, w})}), "z");
  const std::string dot = explain_dot(partition(std::move(graph)));
  const std::string label = "label=\"_a_module_w...t_is_far_too_long_to_read: f32[2]\"";
  const size_t first = dot.find(label);
  ASSERT_NE(first, std::string::npos) << dot;
  EXPECT_NE(dot.find(label, first + 1), std::string::npos) << dot;
  EXPECT_EQ(dot.find(path), std::string::npos) << dot;
}

TEST(Explain, HostileNamesStayInsideTheirQuotes) {
  ir::Graph graph;
  graph.name = "a\"b\\";
  const ir::Value x = *graph.input("x\"]; evil [", {ir::DType::F32, {ir::Dim(4)}});
  graph.add_output(*graph.add(ir::Op::Exp, {x}), "y\n");
  const std::string dot = explain_dot(partition(std::move(graph)));
  EXPECT_NE(dot.find(R"(label="x\"]; evil [: f32[4]")"), std::string::npos) << dot;
  EXPECT_NE(dot.find(R"(digraph "a\"b\\")"), std::string::npos) << dot;
}

}  // namespace
}  // namespace attacca::fuse::testing
