#include "api/names.hpp"

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "ir/text/lexer.hpp"
#include "ir/text/rules.hpp"
#include "ir/text/text.hpp"

namespace attacca::api {

std::string suggest(std::string_view name, const std::vector<std::string>& known,
                    std::string_view lead) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  const std::string_view best = ir::nearest(name, views);
  if (!best.empty()) return fmt::format("did you mean {}?", best);
  return known.empty() ? "there are none" : fmt::format("{} {}", lead, fmt::join(known, ", "));
}

Result<ir::Value> find_input(const ir::Graph& graph, const std::string& name) {
  const auto value = graph.find(name);
  if (value && graph[*value].op == ir::Op::Input) return *value;
  if (value && graph[*value].op == ir::Op::Constant)
    return fail(fmt::format("the graph has no input {}: it is a constant", name), name,
                "an initializer of an ONNX model is an input once it is removed from these");
  return fail(fmt::format("the graph has no input {}", name), name,
              suggest(name, input_names(graph), "its inputs are"));
}

std::vector<std::string> input_names(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Value input : graph.inputs()) names.push_back(graph[input].name);
  return names;
}

Result<ir::Type> parse_type(const std::string& text, const std::string& name) {
  const std::string source = fmt::format("type of {}", name);
  ATTACCA_TRY(const ir::Graph graph,
              ir::parse_graph(fmt::format("graph g(x: {}\n) {{ return x }}", text), source));
  if (graph.inputs().size() != 1)
    return fail(fmt::format("{} is more than a type", text), source, "write one, as f32[M, 64]");
  return graph.type(graph.inputs()[0]);
}

}  // namespace attacca::api
