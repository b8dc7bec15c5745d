// Every example reads, and a block's two forms have the same inputs and outputs.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "import/onnx_testing.hpp"

namespace attacca::import {
namespace {

const std::filesystem::path kExamples = std::filesystem::path(ATTACCA_SOURCE_DIR) / "examples";

std::string interface(const ir::Graph& graph) {
  std::string text;
  for (const ir::Value input : graph.inputs())
    text += fmt::format("{}: {}\n", graph[input].name, ir::to_string(graph.type(input)));
  for (const ir::Output& output : graph.outputs())
    text += fmt::format("-> {}: {}\n", output.name, ir::to_string(graph.type(output.value)));
  return text;
}

Result<ir::Graph> read_text_file(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return ir::parse_graph(text.str(), path.filename().string());
}

class Examples : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Blocks, Examples,
                         testing::Values("llama3_8b_mlp", "bert_mlp", "gpt_oss_expert",
                                         "attention_output"));

TEST_P(Examples, BothFormsAgree) {
  const auto model = read_onnx((kExamples / GetParam()).string() + ".onnx");
  ASSERT_TRUE(model) << to_string(model.error());
  const auto text = read_text_file((kExamples / GetParam()).string() + ".attacca");
  ASSERT_TRUE(text) << to_string(text.error());
  EXPECT_EQ(interface(*model), interface(*text));
}

TEST(Experts, AreGroupedProducts) {
  const auto graph = read_text_file(kExamples / "gpt_oss_experts.attacca");
  ASSERT_TRUE(graph) << to_string(graph.error());
  EXPECT_EQ(std::count_if(graph->nodes().begin(), graph->nodes().end(),
                          [](const ir::Node& node) { return node.op == ir::Op::GroupedMatMul; }),
            2);
}

// Down to the product, without the constants' numbers.
TEST(QuantisedExamples, KeepTheirProductIn8Bits) {
  const auto graph = read_onnx((kExamples / "int8_linear.onnx").string());
  ASSERT_TRUE(graph) << to_string(graph.error());
  for (const ir::Node& node : graph->nodes()) {
    if (node.op != ir::Op::MatMul) continue;
    for (const ir::Value operand : node.operands)
      EXPECT_EQ(graph->type(operand).dtype, ir::DType::S8);
  }
  EXPECT_TRUE(read_onnx((kExamples / "int8_linear_qdq.onnx").string()));
  EXPECT_TRUE(read_text_file(kExamples / "int8_linear.attacca"));
}

}  // namespace
}  // namespace attacca::import
