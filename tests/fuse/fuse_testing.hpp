// Text in, text out: a graph in the text form, its partition as a short text.
#pragma once

#include <algorithm>
#include <string>

#include "gtest/gtest.h"

#include "fuse/explain/explain.hpp"
#include "fuse/fuse.hpp"
#include "ir/text/text.hpp"

namespace attacca::fuse::testing {

inline ir::Attrs over_axes(std::vector<int64_t> axes, bool keepdims) {
  return ir::ReductionAttrs{std::move(axes), keepdims};
}

inline ir::Graph parsed(const std::string& text) {
  auto graph = ir::parse_graph(text);
  EXPECT_TRUE(graph) << (graph ? "" : to_string(graph.error())) << text;
  return graph ? *std::move(graph) : ir::Graph();
}

inline Partition partition_of(const std::string& text, const FuseOptions& options = {}) {
  Partition result = partition(parsed(text), options);
  const Status status = verify(result);
  EXPECT_TRUE(status) << (status ? "" : to_string(status.error())) << explain_text(result);
  return result;
}

// "graph g(x: f32[M, 4]) { return ... }" from a parameter list and a body.
inline std::string graph_text(const std::string& parameters, const std::string& body) {
  return "graph g(" + parameters + ") {\n" + body + "\n}\n";
}

// Regions in order, "; " between: "gemm y = relu(acc)", "single m". Several outputs: ", ".
inline std::string summary(const Partition& partition) {
  std::string text;
  for (const Region& region : partition.regions) {
    if (!text.empty()) text += "; ";
    static const char* const kKinds[] = {"gemm", "gated", "pointwise", "kernel", "single"};
    text += kKinds[static_cast<size_t>(region.kind)];
    if (region.kind == RegionKind::Single)
      text += " " + epilogue::display_name(partition.graph, region.nodes[0]);
    std::vector<epilogue::Output> outputs = region.epilogue.outputs;
    std::sort(outputs.begin(), outputs.end(),
              [](const auto& a, const auto& b) { return a.result < b.result; });
    for (const epilogue::Output& output : outputs)
      text += std::string(&output == &outputs[0] ? " " : ", ") +
              epilogue::display_name(partition.graph, output.result) + " = " +
              print(region.epilogue, partition.graph, output);
  }
  return text;
}

inline std::string fused(const std::string& parameters, const std::string& body) {
  return summary(partition_of(graph_text(parameters, body)));
}

// The reasons why the named node joined no region, "; " between.
inline std::string why_not(const std::string& parameters, const std::string& body,
                           const std::string& node) {
  const Partition result = partition_of(graph_text(parameters, body));
  std::string text;
  for (const Refusal& refusal : result.refusals)
    if (epilogue::display_name(result.graph, refusal.node) == node)
      text += (text.empty() ? "" : "; ") + refusal.reason;
  return text;
}

}  // namespace attacca::fuse::testing
