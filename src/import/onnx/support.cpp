#include "import/onnx/support.hpp"

#include <set>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "import/onnx/nodes/branches.hpp"
#include "import/onnx/nodes/names.hpp"
#include "import/onnx/nodes/order.hpp"
#include "import/onnx/ops.hpp"

namespace attacca::import {
namespace {

// "a, b"; of many "40 nodes, a, b, c ...".
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  if (names.size() <= kMost) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} nodes, {} ...", names.size(),
                     fmt::join(names.begin(), names.begin() + kMost, ", "));
}

// The op's description if no row serves it, else empty.
std::string unsupported(const onnx::NodeProto& node, const Opsets& opsets) {
  const std::string domain = standard_domain(node.domain());
  const int64_t opset = opset_of(opsets, domain);
  if (is_if(node) || find_op(domain, node.op_type(), opset) != nullptr) return {};
  const std::string name = printable(node.op_type());
  if (!domain.empty()) return fmt::format("{} of domain {}", name, printable(domain));
  return is_known_op(domain, node.op_type()) ? fmt::format("{} in opset {}", name, opset) : name;
}

}  // namespace

int64_t opset_of(const Opsets& opsets, const std::string& domain) {
  const auto found = opsets.find(domain);
  return found == opsets.end() ? 1 : found->second;
}

std::string node_name(const onnx::NodeProto& node) {
  if (!node.name().empty()) return printable(node.name());
  for (const std::string& output : node.output())
    if (!output.empty()) return printable(output);
  return "(unnamed)";
}

Status check_support(const onnx::GraphProto& graph, const Functions& functions,
                     const Opsets& opsets) {
  std::map<std::string, std::vector<std::string>> missing;
  std::set<const onnx::FunctionProto*> seen;
  std::vector<std::pair<const Nodes*, Opsets>> open{{&graph.node(), opsets}};
  while (!open.empty()) {
    const auto [nodes, imports] = std::move(open.back());
    open.pop_back();
    for (const auto& node : *nodes) {
      if (const auto* function = functions.find(node)) {
        if (seen.insert(function).second)
          open.emplace_back(&function->node(), opsets_of(function->opset_import()));
      } else if (auto op = unsupported(node, imports); !op.empty()) {
        missing[op].push_back(node_name(node));
      }
    }
  }
  if (missing.empty()) return {};
  std::string list;
  for (const auto& [op, names] : missing) list += fmt::format("\n  {}: {}", op, listed(names));
  return fail(fmt::format("the model uses ops that are not supported:{}", list), {},
              "replace them, cut the model around them, or run the file with ONNX Runtime");
}

}  // namespace attacca::import
