#include "api/builder.hpp"

#include <atomic>
#include <cstring>

#include "fmt/format.h"

#include "api/names.hpp"
#include "ir/text/call.hpp"
#include "ir/text/lexer.hpp"
#include "ir/text/text.hpp"

namespace attacca::api {
namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return (last.fetch_add(1) + 1) & 0xffffffffu;
}

}  // namespace

Result<ir::Tensor> copied_tensor(const ir::Type& type, const void* data, size_t bytes,
                                 const std::string& where) {
  if (!ir::is_static(type.shape) || !type.strides.empty())
    return fail(fmt::format("a constant of type {}", to_string(type)), where,
                "a constant's sizes are numbers, its elements lie row by row");
  ATTACCA_TRY(std::vector<int64_t> shape, evaluate(type.shape, {}));
  ATTACCA_TRY(ir::Tensor tensor, ir::Tensor::make(type.dtype, std::move(shape)));
  if (static_cast<size_t>(tensor.bytes()) != bytes)
    return fail(
        fmt::format("{} bytes for {}, which has {}", bytes, to_string(type), tensor.bytes()), where,
        "give all of its elements");
  if (bytes > 0) std::memcpy(tensor.data(), data, bytes);
  return tensor;
}

Builder::Builder(std::string name) : serial_(next_serial()) {
  graph_.name = std::move(name);
}

Result<ir::Value> Builder::value(Handle handle) const {
  const auto id = static_cast<uint32_t>(handle);
  if (handle >> 32 != serial_ || id >= graph_.size())
    return fail("a value of another builder", fmt::format("graph {}", graph_.name),
                "give values that this builder returned");
  return ir::Value{id};
}

Result<Builder::Handle> Builder::input(const std::string& name, const std::string& type) {
  ATTACCA_TRY(ir::Type parsed, parse_type(type, name));
  ATTACCA_TRY(const ir::Value value, graph_.input(name, std::move(parsed)));
  return handle(value);
}

Result<Builder::Handle> Builder::constant(const std::string& type, const void* data, size_t bytes) {
  ATTACCA_TRY(const ir::Type parsed, parse_type(type, "constant"));
  ATTACCA_TRY(ir::Tensor tensor, copied_tensor(parsed, data, bytes, "constant"));
  return handle(graph_.constant(std::move(tensor)));
}

Result<Builder::Handle> Builder::add(std::string_view text, const std::string& source,
                                     const std::vector<std::pair<std::string, ir::Value>>& values) {
  std::vector<ir::NamedType> inputs;
  for (const auto& [name, value] : values) {
    ir::Type type = graph_.type(value);
    type.strides.clear();
    inputs.push_back({name, std::move(type)});
  }
  ATTACCA_TRY(const ir::Graph made, ir::parse_results(text, inputs, source));
  if (made.outputs().size() != 1)
    return fail(fmt::format("{} results where one is wanted", made.outputs().size()), source,
                "write one expression");
  std::vector<ir::Value> copies;
  for (const ir::Node& node : made.nodes()) {
    if (node.op == ir::Op::Input) {
      copies.push_back(values[copies.size()].second);
      continue;
    }
    std::vector<ir::Value> operands;
    for (const ir::Value operand : node.operands) operands.push_back(copies[operand.id]);
    ATTACCA_TRY(const ir::Value copy, ir::copy_node(graph_, node, std::move(operands)));
    copies.push_back(copy);
  }
  return handle(copies[made.outputs()[0].value.id]);
}

Result<Builder::Handle> Builder::call(std::string_view op, const std::vector<Handle>& operands,
                                      std::string_view attributes) {
  if (op == "kernel")
    return fail("kernel is not called by its operands alone", fmt::format("graph {}", graph_.name),
                "use attacca_builder_kernel, or Builder::kernel in C++");
  if (op == "constant")
    return fail("constant is not called by operands", fmt::format("graph {}", graph_.name),
                "use attacca_builder_constant, or Builder::constant in C++");
  if (!ir::is_call_name(op))
    return fail(fmt::format("unknown op {}", op), fmt::format("graph {}", graph_.name),
                ir::suggest_call(op));
  std::vector<std::pair<std::string, ir::Value>> values;
  std::string arguments;
  for (const Handle operand : operands) {
    ATTACCA_TRY(const ir::Value found, value(operand));
    values.emplace_back(fmt::format("x{}", values.size()), found);
    arguments += fmt::format("{}{}", arguments.empty() ? "" : ", ", values.back().first);
  }
  if (!attributes.empty())
    arguments += fmt::format("{}{}", arguments.empty() ? "" : ", ", attributes);
  return add(fmt::format("{}({})", op, arguments), fmt::format("call of {}", op), values);
}

Result<Builder::Handle> Builder::kernel(std::string_view file,
                                        const std::vector<KernelArgument>& arguments,
                                        std::string_view launch) {
  std::vector<std::pair<std::string, ir::Value>> values;
  std::string text = fmt::format("kernel({}", ir::encode_name(file));
  for (const KernelArgument& argument : arguments) {
    if (argument.text.empty()) {
      ATTACCA_TRY(const ir::Value found, value(argument.value));
      values.emplace_back(fmt::format("x{}", values.size()), found);
    }
    text += ", " + (argument.text.empty() ? values.back().first : argument.text);
  }
  return add(fmt::format("{}, {})", text, launch), "call of kernel", values);
}

Result<Builder::Handle> Builder::compute(
    std::string_view expression, const std::vector<std::pair<std::string, Handle>>& values) {
  std::vector<std::pair<std::string, ir::Value>> found;
  for (const auto& [name, handle] : values) {
    ATTACCA_TRY(const ir::Value known, value(handle));
    found.emplace_back(name, known);
  }
  return add(expression, "expression", found);
}

Status Builder::output(Handle handle, std::string name) {
  ATTACCA_TRY(const ir::Value known, value(handle));
  if (name.empty()) name = graph_[known].name;
  if (name.empty()) name = fmt::format("out{}", graph_.outputs().size());
  for (const ir::Output& output : graph_.outputs())
    if (output.name == name)
      return fail(fmt::format("output {} comes twice", name), name, "use another name");
  graph_.add_output(known, std::move(name));
  return {};
}

Result<ir::Graph> Builder::finish() const {
  if (graph_.outputs().empty())
    return fail(fmt::format("graph {} has no output", graph_.name),
                fmt::format("graph {}", graph_.name), "add one");
  ATTACCA_TRY_VOID(ir::verify(graph_));
  return graph_;
}

}  // namespace attacca::api
