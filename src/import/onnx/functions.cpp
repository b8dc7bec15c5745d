#include "import/onnx/functions.hpp"

#include <set>

#include "fmt/format.h"

#include "import/onnx/nodes/branches.hpp"
#include "import/onnx/nodes/names.hpp"
#include "import/onnx/wire.hpp"

namespace attacca::import {
namespace {

using Attributes = std::map<std::string, const onnx::AttributeProto*>;

void substitute(onnx::NodeProto& node, const Attributes& values) {
  std::vector<onnx::AttributeProto> resolved;
  for (const auto& attribute : node.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      resolved.push_back(attribute);
      continue;
    }
    const auto value = values.find(attribute.ref_attr_name());
    if (value == values.end()) continue;
    resolved.push_back(*value->second);
    resolved.back().set_name(attribute.name());
  }
  node.clear_attribute();
  for (auto& attribute : resolved) *node.add_attribute() = std::move(attribute);
}

std::set<std::string> absent_inputs(const onnx::FunctionProto& function,
                                    const onnx::NodeProto& caller) {
  std::set<std::string> absent;
  for (int i = 0; i < function.input_size(); ++i)
    if (i >= caller.input_size() || caller.input(i).empty()) absent.insert(function.input(i));
  return absent;
}

}  // namespace

Result<Functions> Functions::of(const onnx::ModelProto& model) {
  Functions functions;
  for (const auto& function : model.functions())
    if (!functions.by_name_
             .emplace(std::tuple(standard_domain(function.domain()), function.name(),
                                 overload_of(function)),
                      &function)
             .second)
      return fail(fmt::format("function {} is defined twice", printable(function.name())));
  return functions;
}

const onnx::FunctionProto* Functions::find(const onnx::NodeProto& node) const {
  const auto found =
      by_name_.find({standard_domain(node.domain()), node.op_type(), overload_of(node)});
  return found == by_name_.end() ? nullptr : found->second;
}

std::vector<onnx::NodeProto> body_of_call(const onnx::FunctionProto& function,
                                          const onnx::NodeProto& caller) {
  const auto defaults = default_attributes(function);
  Attributes values;
  for (const auto& attribute : defaults) values[attribute.name()] = &attribute;
  for (const auto& attribute : caller.attribute()) values[attribute.name()] = &attribute;
  const std::set<std::string> absent = absent_inputs(function, caller);
  std::vector<onnx::NodeProto> body(function.node().begin(), function.node().end());
  const auto bind = [&](onnx::NodeProto& node) {
    substitute(node, values);
    for (std::string& input : *node.mutable_input())
      if (absent.count(input)) input.clear();
  };
  for (onnx::NodeProto& node : body) {
    bind(node);
    for_each_inner_node(node, bind);
  }
  return body;
}

}  // namespace attacca::import
