// One line a case: expect_fold("x / (1 + exp(-x))", "silu(x)"), or unchanged.
#pragma once

#include <stdexcept>
#include <string>

#include "gtest/gtest.h"

#include "fold/fold.hpp"
#include "ir/text/text.hpp"

namespace attacca::fold {

inline constexpr const char* unchanged = nullptr;

inline ir::Graph parsed(const std::string& text, ir::DType dtype = ir::DType::F32) {
  auto graph = ir::parse_expression(text, {dtype, {ir::Dim::symbol("N")}});
  if (!graph) throw std::runtime_error(text + "\n" + to_string(graph.error()));
  return *graph;
}

inline std::string printed(const ir::Graph& graph) {
  return ir::print_expression(graph, graph.outputs()[0].value, true);
}

inline std::string folded(const std::string& text, ir::DType dtype = ir::DType::F32) {
  return printed(fold(parsed(text, dtype)).graph);
}

inline void expect_fold(const std::string& text, const char* expected,
                        ir::DType dtype = ir::DType::F32) {
  const std::string want = printed(parsed(expected ? expected : text, dtype));
  EXPECT_EQ(folded(text, dtype), want) << "of " << text;
}

inline ir::Graph graph_of(const std::string& text) {
  auto graph = ir::parse_graph(text);
  if (!graph) throw std::runtime_error(text + "\n" + to_string(graph.error()));
  return *graph;
}

// Of whole graphs: `before` and `after` are what stands after "graph g".
inline void expect_graph(const std::string& before, const std::string& after) {
  const ir::Graph result = fold(graph_of("graph g" + before)).graph;
  EXPECT_EQ(ir::print_graph(result), ir::print_graph(graph_of("graph g" + after))) << before;
  EXPECT_TRUE(ir::verify(result).has_value());
}

inline void expect_unchanged(const std::string& graph) {
  expect_graph(graph, graph);
}

}  // namespace attacca::fold
