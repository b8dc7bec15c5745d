#include "import/onnx/node.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fmt/format.h"

#include "import/onnx/sizes/fractions.hpp"
#include "ir/interpret/interpreter.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Tensor;
using ir::Value;

constexpr size_t kMaxFoldedNodes = 256;

// The nodes a value is computed from, ascending, if none is an input or a matrix product and all
// together have at most `elements` elements.
std::optional<std::vector<Value>> constant_cone(const ir::Graph& graph, Value value,
                                                int64_t elements) {
  std::vector<Value> cone{value};
  for (size_t i = 0; i < cone.size(); ++i) {
    const ir::Node& node = graph[cone[i]];
    const auto count = ir::element_count(node.type.shape).maybe_value();
    if (node.op == Op::Input || node.op == Op::MatMul || !count || *count > elements ||
        cone.size() > kMaxFoldedNodes)
      return std::nullopt;
    elements -= *count;
    for (const Value operand : node.operands)
      if (std::find(cone.begin(), cone.end(), operand) == cone.end()) cone.push_back(operand);
  }
  std::sort(cone.begin(), cone.end());
  return cone;
}

std::optional<Known> known_of(const Tensor& tensor) {
  if (ir::is_float(tensor.dtype()) || tensor.shape().size() > 1 ||
      tensor.size() > kMaxKnownElements)
    return std::nullopt;
  Known known{tensor.dtype(), {}, tensor.shape().empty()};
  for (int64_t i = 0; i < tensor.size(); ++i) known.elements.emplace_back(tensor.integer_at(i));
  return known;
}

Result<Tensor> tensor_of(const Known& known) {
  std::vector<int64_t> shape;
  if (!known.scalar) shape.push_back(static_cast<int64_t>(known.elements.size()));
  ATTACCA_TRY(Tensor tensor, Tensor::make(known.dtype, std::move(shape)));
  for (size_t i = 0; i < known.elements.size(); ++i)
    tensor.set_integer(static_cast<int64_t>(i), known.elements[i].value());
  return tensor;
}

// The elements, of which some are symbols, as a value computed at run time.
Result<Value> value_of(ir::Graph& graph, const Known& known) {
  std::vector<Expr> parts;
  for (const Dim& element : known.elements)
    parts.push_back(emit_range(graph, element, element + 1));
  Expr joined = concat(parts, 0);
  if (known.scalar) joined = reshape(joined, {});
  return cast(joined, known.dtype).value;
}

}  // namespace

std::optional<Tensor> fold_constant(const ir::Graph& graph, Value value, int64_t elements) {
  const ir::Node& node = graph[value];
  if (node.op == Op::Constant && node.tensor) return *node.tensor;
  const auto cone = constant_cone(graph, value, elements);
  if (!cone) return std::nullopt;
  ir::Graph copy;
  std::vector<std::pair<Value, Value>> moved;
  for (const Value old : *cone) {
    const ir::Node& from = graph[old];
    std::vector<Value> operands;
    for (const Value operand : from.operands)
      operands.push_back(std::find_if(moved.begin(), moved.end(), [&](const auto& pair) {
                           return pair.first == operand;
                         })->second);
    const auto to = ir::copy_node(copy, from, std::move(operands));
    if (!to) return std::nullopt;
    moved.emplace_back(old, *to);
  }
  copy.add_output(moved.back().second, "folded");
  const auto result = ir::interpret(copy, {}, {.precision = ir::Precision::Fp32});
  if (!result) return std::nullopt;
  return result->front();
}

Value add_constant(ir::Graph& graph, Tensor tensor) {
  constexpr int64_t kExact = int64_t{1} << 53;
  if (!tensor.shape().empty()) return graph.constant(std::move(tensor));
  if (ir::is_float(tensor.dtype())) return graph.literal(tensor.number_at(0), tensor.dtype());
  const int64_t value = tensor.integer_at(0);
  if (value > kExact || value < -kExact) return graph.constant(std::move(tensor));
  return graph.literal(static_cast<double>(value), tensor.dtype());
}

Result<Value> materialise(ir::Graph& graph, Entry& entry) {
  if (entry.value) return *entry.value;
  if (std::all_of(entry.known->elements.begin(), entry.known->elements.end(),
                  [](const Dim& element) { return element.is_static(); })) {
    ATTACCA_TRY(Tensor tensor, tensor_of(*entry.known));
    entry.value = add_constant(graph, std::move(tensor));
  } else {
    ATTACCA_TRY(entry.value, value_of(graph, *entry.known));
  }
  return *entry.value;
}

Result<Value> Node::input(size_t i) {
  if (!has(i))
    return fail(fmt::format("input {} is missing", i), {},
                "give the node this input: the op does not do without it");
  return materialise(graph_, *inputs_[i]);
}

std::optional<Known> Node::known(size_t i) {
  return has(i) ? known_numbers(graph_, *inputs_[i]) : std::nullopt;
}

std::optional<Known> known_numbers(const ir::Graph& graph, Entry& entry) {
  if (entry.known) return entry.known;
  const ir::Type& type = graph.type(*entry.value);
  const auto count = ir::element_count(type.shape).maybe_value();
  if (ir::is_float(type.dtype) || type.shape.size() > 1 || !count || *count > kMaxKnownElements)
    return std::nullopt;
  if (const auto tensor = fold_constant(graph, *entry.value)) {
    entry.known = known_of(*tensor);
  } else if (auto sizes = sizes_through_floats(graph, *entry.value)) {
    entry.known = Known{type.dtype, *std::move(sizes), type.shape.empty()};
  }
  return entry.known;
}

void Node::broadcasts(const std::vector<Expr>& operands, size_t left_out) {
  std::vector<ir::Shape> shapes;
  for (const Expr& operand : operands) {
    if (!operand.value) return;
    ir::Shape of = shape(*operand.value);
    of.resize(of.size() - std::min(of.size(), left_out));
    shapes.push_back(std::move(of));
  }
  if (auto missing = missing_equality(shapes)) assumptions_.missing = std::move(missing);
}

Result<std::vector<Dim>> Node::dims(size_t i, std::string_view what) {
  ATTACCA_TRY(const Value present, has(i) ? Result<Value>(Value{}) : input(i));
  (void)present;
  if (auto numbers = known(i)) return numbers->elements;
  return fail(fmt::format("{} (input {}, {}) must follow from constants and shapes", what, i,
                          proto_.input(static_cast<int>(i))),
              {},
              "store it as an initializer; where it depends on sizes alone, give them (--dim, in "
              "Python dims=)");
}

Result<std::vector<int64_t>> Node::integers(size_t i, std::string_view what) {
  ATTACCA_TRY(const std::vector<Dim> elements, dims(i, what));
  std::vector<int64_t> values;
  for (const Dim& element : elements) {
    if (!element.is_static())
      return fail(fmt::format("{} must be a number, got {}", what, to_string(element)), {},
                  "export the model with a fixed size there");
    values.push_back(element.value());
  }
  return values;
}

std::optional<double> Node::constant_scalar(size_t i) {
  if (!has(i)) return std::nullopt;
  if (const auto numbers = known(i)) {
    if (numbers->elements.size() != 1 || !numbers->elements[0].is_static()) return std::nullopt;
    return static_cast<double>(numbers->elements[0].value());
  }
  if (!inputs_[i]->value) return std::nullopt;
  const ir::Node& node = graph_[*inputs_[i]->value];
  if (node.op == Op::Constant && node.literal) return node.literal->value;
  if (!ir::element_count(node.type.shape).is(1)) return std::nullopt;
  const auto tensor = fold_constant(graph_, *inputs_[i]->value);
  if (!tensor) return std::nullopt;
  return tensor->number_at(0);
}

const onnx::AttributeProto* Node::attribute(std::string_view name) const {
  for (const auto& attribute : proto_.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

const onnx::AttributeProto* Node::typed(std::string_view name,
                                        onnx::AttributeProto::AttributeType type) {
  const auto* found = attribute(name);
  if (found == nullptr || found->type() == type) return found;
  // The earliest exporters left the type out. It follows from the fields.
  if (found->type() == onnx::AttributeProto::UNDEFINED) return found;
  attribute_error_ = Error{fmt::format("attribute {} is {}, wanted {}", name,
                                       onnx::AttributeProto::AttributeType_Name(found->type()),
                                       onnx::AttributeProto::AttributeType_Name(type)),
                           {},
                           "export the model again"};
  return nullptr;
}

int64_t Node::integer(std::string_view name, int64_t otherwise) {
  const auto* found = typed(name, onnx::AttributeProto::INT);
  return found ? found->i() : otherwise;
}

double Node::real(std::string_view name, double otherwise) {
  const auto* found = typed(name, onnx::AttributeProto::FLOAT);
  return found ? static_cast<double>(found->f()) : otherwise;
}

std::string Node::text(std::string_view name, std::string otherwise) {
  const auto* found = typed(name, onnx::AttributeProto::STRING);
  return found ? found->s() : otherwise;
}

std::optional<std::vector<int64_t>> Node::integer_list(std::string_view name) {
  const auto* found = typed(name, onnx::AttributeProto::INTS);
  if (found == nullptr) return std::nullopt;
  return std::vector<int64_t>(found->ints().begin(), found->ints().end());
}

Result<std::vector<int64_t>> normalise_axes(std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) {
    ATTACCA_TRY(axis, normalise_axis(axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  const auto twice = std::adjacent_find(axes.begin(), axes.end());
  if (twice != axes.end()) return fail(fmt::format("axis {} is named twice", *twice));
  return axes;
}

std::vector<int64_t> axes_from(int64_t first, int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(std::max<int64_t>(rank - first, 0)));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

}  // namespace attacca::import
