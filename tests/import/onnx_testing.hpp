// Builds small ONNX models and reads them: model in, text out.
#pragma once

#include <gtest/gtest.h>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "fmt/format.h"

#include "import/onnx/onnx.hpp"
#include "ir/text/text.hpp"
#include "onnx/onnx.pb.h"

namespace attacca::import {

using Attribute =
    std::variant<int64_t, float, std::string, std::vector<int64_t>, onnx::TensorProto>;
using Attributes = std::map<std::string, Attribute>;

inline constexpr int kFloat = onnx::TensorProto::FLOAT, kDouble = onnx::TensorProto::DOUBLE,
                     kInt64 = onnx::TensorProto::INT64, kUint8 = onnx::TensorProto::UINT8,
                     kInt8 = onnx::TensorProto::INT8;

template <class List>
onnx::TensorProto tensor_proto(int type, std::vector<int64_t> shape, const List& values) {
  onnx::TensorProto proto;
  proto.set_data_type(type);
  for (const int64_t extent : shape) proto.add_dims(extent);
  for (const auto value : values) {
    if (type == kFloat)
      proto.add_float_data(static_cast<float>(value));
    else if (type == kDouble)
      proto.add_double_data(static_cast<double>(value));
    else if (type == kInt64)
      proto.add_int64_data(static_cast<int64_t>(value));
    else
      proto.add_int32_data(static_cast<int32_t>(value));
  }
  return proto;
}

inline void set_attribute(onnx::AttributeProto& proto, const std::string& name,
                          const Attribute& value) {
  proto.set_name(name);
  if (const auto* i = std::get_if<int64_t>(&value)) {
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(*i);
  } else if (const auto* f = std::get_if<float>(&value)) {
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(*f);
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    proto.set_type(onnx::AttributeProto::STRING);
    proto.set_s(*s);
  } else if (const auto* t = std::get_if<onnx::TensorProto>(&value)) {
    proto.set_type(onnx::AttributeProto::TENSOR);
    *proto.mutable_t() = *t;
  } else {
    proto.set_type(onnx::AttributeProto::INTS);
    for (const int64_t element : std::get<std::vector<int64_t>>(value)) proto.add_ints(element);
  }
}

// Model(17).input("x", "f32[M, 4]").node("Relu", {"x"}, {"y"}).output("y")
class Model {
 public:
  explicit Model(int64_t opset = 17) {
    proto_.set_ir_version(8);
    proto_.add_opset_import()->set_version(opset);
    proto_.mutable_graph()->set_name("g");
  }

  // Dimensions: a number, or a name.
  Model& input(const std::string& name, const std::vector<std::string>& shape, int type = kFloat) {
    auto* value = proto_.mutable_graph()->add_input();
    value->set_name(name);
    auto* tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
    for (const std::string& extent : shape) {
      auto* dim = tensor->mutable_shape()->add_dim();
      if (extent.empty()) continue;
      if (extent.find_first_not_of("-0123456789") == std::string::npos)
        dim->set_dim_value(std::stoll(extent));
      else
        dim->set_dim_param(extent);
    }
    return *this;
  }
  template <class List = std::vector<double>>
  Model& weight(const std::string& name, std::vector<int64_t> shape, const List& values,
                int type = kFloat) {
    auto* proto = proto_.mutable_graph()->add_initializer();
    *proto = tensor_proto(type, std::move(shape), values);
    proto->set_name(name);
    return *this;
  }
  Model& ints(const std::string& name, const std::vector<int64_t>& values) {
    return weight(name, {static_cast<int64_t>(values.size())}, values, kInt64);
  }
  Model& node(const std::string& op, const std::vector<std::string>& inputs,
              const std::vector<std::string>& outputs, const Attributes& attributes = {},
              const std::string& domain = {}) {
    fill(*proto_.mutable_graph()->add_node(), op, inputs, outputs, attributes, domain);
    return *this;
  }
  Model& output(const std::string& name) {
    proto_.mutable_graph()->add_output()->set_name(name);
    return *this;
  }
  onnx::ModelProto& proto() { return proto_; }
  std::string bytes() const { return proto_.SerializeAsString(); }

  static void fill(onnx::NodeProto& node, const std::string& op,
                   const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                   const Attributes& attributes, const std::string& domain = {}) {
    node.set_op_type(op);
    node.set_domain(domain);
    for (const auto& input : inputs) node.add_input(input);
    for (const auto& output : outputs) node.add_output(output);
    for (const auto& [name, value] : attributes) set_attribute(*node.add_attribute(), name, value);
  }

 private:
  onnx::ModelProto proto_;
};

inline Error error_of(const Model& model) {
  const auto graph = parse_onnx(model.bytes());
  return graph ? Error{"no error", {}, {}} : graph.error();
}

// The outputs as expressions over the inputs, each with its type: "relu(x) : f32[M, 4]".
inline std::string read_text(const Model& model, const FixedInputs& fixed = {}) {
  const auto graph = parse_onnx(model.bytes(), {}, fixed);
  if (!graph) return "error: " + graph.error().what;
  if (const auto status = ir::verify(*graph); !status) return to_string(status.error());
  std::string text;
  for (const ir::Output& output : graph->outputs())
    text += fmt::format("{}{} : {}", text.empty() ? "" : "\n",
                        ir::print_expression(*graph, output.value, true),
                        ir::to_string(graph->type(output.value)));
  return text;
}

// One node over inputs of the given shapes, named x, y, z.
inline std::string read_node(int64_t opset, const std::string& op,
                             const std::vector<std::vector<std::string>>& shapes,
                             const Attributes& attributes = {}, int type = kFloat) {
  Model model(opset);
  std::vector<std::string> names;
  for (const auto& shape : shapes) {
    names.emplace_back(1, static_cast<char>('x' + names.size()));
    model.input(names.back(), shape, type);
  }
  return read_text(model.node(op, names, {"out"}, attributes).output("out"));
}

}  // namespace attacca::import
