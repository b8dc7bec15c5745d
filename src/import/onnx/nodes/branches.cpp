#include "import/onnx/nodes/branches.hpp"

#include "fmt/format.h"

#include "import/onnx/nodes/domain.hpp"

namespace attacca::import {

bool is_if(const onnx::NodeProto& node) {
  return node.op_type() == "If" && standard_domain(node.domain()).empty();
}

Result<const onnx::GraphProto*> branch_of(const onnx::NodeProto& node, bool condition) {
  const char* name = condition ? "then_branch" : "else_branch";
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() != name) continue;
    if (!attribute.has_g()) break;
    if (attribute.g().input_size() > 0)
      return fail(fmt::format("the graph {} has inputs", name), {},
                  "a branch reads the names around it");
    return &attribute.g();
  }
  return fail(fmt::format("the attribute {} is missing", name));
}

void for_each_inner_node(const onnx::NodeProto& node,
                         const std::function<void(const onnx::NodeProto&)>& visit) {
  for (const auto& attribute : node.attribute())
    for (const auto& inner : attribute.g().node()) {
      visit(inner);
      for_each_inner_node(inner, visit);
    }
}

void for_each_inner_node(onnx::NodeProto& node,
                         const std::function<void(onnx::NodeProto&)>& visit) {
  for (auto& attribute : *node.mutable_attribute()) {
    if (!attribute.has_g()) continue;
    for (auto& inner : *attribute.mutable_g()->mutable_node()) {
      visit(inner);
      for_each_inner_node(inner, visit);
    }
  }
}

void for_each_read_name(const onnx::NodeProto& node,
                        const std::function<void(const std::string&)>& visit) {
  const auto visit_own = [&](const onnx::NodeProto& each) {
    for (const std::string& input : each.input()) visit(input);
    for (const auto& attribute : each.attribute())
      for (const auto& output : attribute.g().output()) visit(output.name());
  };
  visit_own(node);
  for_each_inner_node(node, visit_own);
}

}  // namespace attacca::import
