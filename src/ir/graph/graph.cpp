#include "ir/graph/graph.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "support/check.hpp"
#include "support/immortal.hpp"

namespace attacca::ir {

std::string to_string(const Type& type) {
  std::string text(name(type.dtype));
  if (type.shape.empty()) return text + "[]";
  if (type.strides.empty()) return text + to_string(type.shape);
  std::string shape = to_string(type.shape), strides = to_string(type.strides);
  shape.back() = ';';
  strides.front() = ' ';
  return text + shape + strides;
}

namespace {

// A NUL would end the name in files, C and Python: two names could become equal there.
Status check_name(const std::string& name) {
  if (name.find('\0') == std::string::npos) return {};
  return fail("a name holds a NUL byte", name.substr(0, name.find('\0')), "use another name");
}

}  // namespace

Result<Value> Graph::input(std::string name, Type type) {
  ATTACCA_TRY_VOID(check_name(name));
  if (!type.strides.empty() && type.strides.size() != type.shape.size())
    return fail(fmt::format("input {} has {} dimensions but {} strides", name, type.shape.size(),
                            type.strides.size()),
                name, "give one stride a dimension, in elements");
  if (element_count(type.shape).overflowed())
    return fail(fmt::format("the shape of input {} overflows 64 bits", name), name,
                "use smaller dimensions");
  for (const Dim& dim : type.shape)
    if (dim.is_static() && dim.value() < 0)
      return fail(fmt::format("input {} has the negative dimension {}", name, dim.value()), name,
                  "use sizes >= 0, or a symbol such as M");
  const Value value{static_cast<uint32_t>(nodes_.size())};
  if (name.empty() || by_name_.count(name))
    return fail(name.empty() ? "an input needs a name" : fmt::format("{} is defined twice", name),
                name, "use another name");
  by_name_[name] = value;
  nodes_.push_back(Node{.op = Op::Input,
                        .operands = {},
                        .attrs = {},
                        .type = std::move(type),
                        .name = std::move(name),
                        .literal = {},
                        .tensor = {}});
  inputs_.push_back(value);
  return value;
}

Value Graph::literal(double value, DType dtype) {
  nodes_.push_back(Node{.op = Op::Constant,
                        .operands = {},
                        .attrs = {},
                        .type = {dtype, {}},
                        .name = {},
                        .literal = Literal{value},
                        .tensor = {}});
  return Value{static_cast<uint32_t>(nodes_.size() - 1)};
}

Value Graph::constant(Tensor tensor) {
  Shape shape(tensor.shape().begin(), tensor.shape().end());
  Type type{tensor.dtype(), std::move(shape)};
  nodes_.push_back(Node{.op = Op::Constant,
                        .operands = {},
                        .attrs = {},
                        .type = std::move(type),
                        .name = {},
                        .literal = {},
                        .tensor = std::make_shared<const Tensor>(std::move(tensor))});
  return Value{static_cast<uint32_t>(nodes_.size() - 1)};
}

const std::vector<double>& Node::params() const {
  const auto& none = immortal([] { return std::vector<double>(); });
  const auto* own = std::get_if<ElementwiseAttrs>(&attrs);
  return own ? own->params : none;
}

std::optional<DType> Node::compute() const {
  if (const auto* own = std::get_if<ElementwiseAttrs>(&attrs)) return own->compute;
  const auto* cast = std::get_if<CastAttrs>(&attrs);
  return cast ? cast->compute : std::nullopt;
}

bool Node::saturates() const {
  const auto* own = std::get_if<CastAttrs>(&attrs);
  return own != nullptr && own->saturate;
}

Result<Value> Graph::add(Op op, std::vector<Value> operands, Attrs attrs) {
  ATTACCA_CHECK(op != Op::Input && op != Op::Constant, "inputs and constants have own functions");
  std::vector<Type> types;
  for (const Value operand : operands) {
    ATTACCA_CHECK(operand.id < nodes_.size(), "operand of another graph");
    types.push_back(nodes_[operand.id].type);
    types.back().strides.clear();
  }
  ATTACCA_TRY(Inferred inferred, infer(op, types, std::move(attrs)));
  nodes_.push_back(Node{.op = op,
                        .operands = std::move(operands),
                        .attrs = std::move(inferred.attrs),
                        .type = std::move(inferred.type),
                        .name = {},
                        .literal = {},
                        .tensor = {}});
  return Value{static_cast<uint32_t>(nodes_.size() - 1)};
}

Status Graph::set_name(Value value, std::string name) {
  ATTACCA_TRY_VOID(check_name(name));
  if (by_name_.count(name))
    return fail(fmt::format("{} is defined twice", name), name, "use another name");
  if (!nodes_[value.id].name.empty()) by_name_.erase(nodes_[value.id].name);
  by_name_[name] = value;
  nodes_[value.id].name = std::move(name);
  return {};
}

void Graph::add_output(Value value, std::string name) {
  ATTACCA_CHECK(value.id < nodes_.size(), "output of another graph");
  if (name.empty()) name = nodes_[value.id].name;
  if (name.empty()) name = fmt::format("out{}", outputs_.size());
  outputs_.push_back({std::move(name), value});
}

std::optional<Value> Graph::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::string> Graph::symbols() const {
  std::vector<std::string> names;
  for (const Value input : inputs_)
    for (const Dim& dim : type(input).shape) dim.collect_symbols(names);
  return names;
}

std::vector<std::vector<Value>> users(const Graph& graph) {
  std::vector<std::vector<Value>> result(graph.size());
  for (uint32_t id = 0; id < graph.size(); ++id)
    for (const Value operand : graph.nodes()[id].operands) {
      auto& list = result[operand.id];
      if (list.empty() || list.back().id != id) list.push_back(Value{id});
    }
  return result;
}

std::vector<bool> live(const Graph& graph) {
  std::vector<bool> alive(graph.size(), false);
  for (const Output& output : graph.outputs()) alive[output.value.id] = true;
  for (const Value input : graph.inputs()) alive[input.id] = true;
  for (size_t id = graph.size(); id-- > 0;)
    if (alive[id])
      for (const Value operand : graph.nodes()[id].operands) alive[operand.id] = true;
  return alive;
}

Result<Value> copy_node(Graph& into, const Node& node, std::vector<Value> operands) {
  if (node.op == Op::Input) return into.input(node.name, node.type);
  if (node.op != Op::Constant) return into.add(node.op, std::move(operands), node.attrs);
  return node.literal ? into.literal(node.literal->value, node.type.dtype)
                      : into.constant(*node.tensor);
}

Result<Value> copy_moved(Graph& into, const Node& node, const std::vector<Value>& moved) {
  std::vector<Value> operands;
  for (const Value operand : node.operands) operands.push_back(moved[operand.id]);
  return copy_node(into, node, std::move(operands));
}

Graph without_dead_nodes(const Graph& graph) {
  const std::vector<bool> alive = live(graph);
  Graph result;
  result.name = graph.name;
  std::vector<Value> moved(graph.size());
  for (uint32_t id = 0; id < graph.size(); ++id) {
    if (!alive[id]) continue;
    const Node& node = graph.nodes()[id];
    const auto value = copy_moved(result, node, moved);
    ATTACCA_CHECK(value.has_value(), "a copied node is invalid");
    if (node.op != Op::Input && !node.name.empty())
      ATTACCA_CHECK(result.set_name(*value, node.name).has_value(), "a copied name is taken");
    moved[id] = *value;
  }
  for (const Output& output : graph.outputs())
    result.add_output(moved[output.value.id], output.name);
  return result;
}

Result<int64_t> normalise_axis(int64_t axis, int64_t rank, std::string_view op) {
  if (axis < -rank || axis >= rank)
    return fail(fmt::format("axis {}{}{} is outside a tensor of rank {}", axis,
                            op.empty() ? "" : " of ", op, rank),
                {}, fmt::format("use an axis from {} to {}", -rank, rank - 1));
  return axis < 0 ? axis + rank : axis;
}

namespace {

Status verify_symbols(const std::set<std::string>& known, const Node& node,
                      const std::string& where) {
  std::vector<std::string> symbols;
  for (const std::vector<Dim>* dims : {&node.type.shape, &node.type.strides})
    for (const Dim& dim : *dims) dim.collect_symbols(symbols);
  if (node.op == Op::Kernel) node.get<KernelAttrs>().call.collect_symbols(symbols);
  if (node.op == Op::Slice)
    for (const SliceRange& range : node.get<SliceAttrs>().ranges)
      for (const Dim* bound : {&range.begin, &range.end}) bound->collect_symbols(symbols);
  return check_known(known, symbols, where);
}

}  // namespace

std::set<std::string> known_symbols(const Graph& graph) {
  const std::vector<std::string> symbols = graph.symbols();
  return {symbols.begin(), symbols.end()};
}

Status check_known(const std::set<std::string>& known, const std::vector<std::string>& symbols,
                   const std::string& where) {
  for (const std::string& symbol : symbols)
    if (!known.contains(symbol))
      return fail(fmt::format("no input has a dimension {}", symbol), where,
                  "use the symbols of the inputs' shapes");
  return {};
}

Status verify(const Graph& graph) {
  if (graph.outputs().empty())
    return fail(fmt::format("graph {} has no outputs", graph.name), graph.name, "return a value");
  ATTACCA_TRY_VOID(check_name(graph.name));
  for (const Output& output : graph.outputs()) ATTACCA_TRY_VOID(check_name(output.name));
  const std::set<std::string> symbols = known_symbols(graph);
  for (uint32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.nodes()[id];
    const std::string where = node.name.empty() ? fmt::format("node {}", id) : node.name;
    ATTACCA_TRY_VOID(verify_symbols(symbols, node, where));
    if (node.op == Op::Input) continue;
    if (node.op == Op::Constant) {
      if (node.literal.has_value() == (node.tensor != nullptr))
        return fail("a constant holds a literal or a tensor, one of both", where);
      const DType dtype = node.type.dtype;
      if (node.literal && !is_float(dtype) &&
          static_cast<double>(to_integer(dtype, node.literal->value)) != node.literal->value)
        return fail(fmt::format("the literal {} is no {}", node.literal->value, name(dtype)), where,
                    "use a value of the dtype");
      continue;
    }
    std::vector<Type> types;
    for (const Value operand : node.operands) {
      if (operand.id >= id) return fail("an operand comes after its user", where);
      types.push_back(graph.type(operand));
      types.back().strides.clear();
    }
    auto inferred = infer(node.op, types, node.attrs);
    if (!inferred) {
      Error error = inferred.error();
      error.where = where;
      return tl::make_unexpected(std::move(error));
    }
    if (inferred->type != node.type)
      return fail(fmt::format("{} has type {} but computes {}", name(node.op), to_string(node.type),
                              to_string(inferred->type)),
                  where);
  }
  return {};
}

namespace {

std::string bound_text(const Dim& bound) {
  constexpr size_t kLongest = 80;
  std::string text = to_string(bound);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

// The bounds on symbolic axes, which infer could not check.
Status check_slices(const Graph& graph, const Node& node, const SymbolValues& symbols) {
  const Shape& shape = graph.type(node.operands[0]).shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const SliceRange& range = node.get<SliceAttrs>().ranges[axis];
    ATTACCA_TRY(const int64_t extent, shape[axis].evaluate(symbols));
    const Dim shift = range.step > 0 ? 0 : 1;  // a negative step may end at -1
    const auto begin = (range.begin + shift).evaluate(symbols);
    const auto end = (range.end + shift).evaluate(symbols);
    const auto span =
        (range.step > 0 ? range.end - range.begin : range.begin - range.end).evaluate(symbols);
    if (!begin || !end || !span || *begin > extent || *end > extent)
      return fail(
          fmt::format("slice {}:{}:{} is outside axis {} of size {}", bound_text(range.begin),
                      bound_text(range.end), range.step, axis, extent),
          node.name.empty() ? graph[node.operands[0]].name : node.name,
          "give inputs of other sizes");
  }
  return {};
}

// factor * symbol + offset
struct Linear {
  int64_t factor, offset;

  // The size of the symbol, not negative, for which the dimension equals the extent.
  std::optional<int64_t> solve(int64_t extent) const {
    int64_t product;
    if (__builtin_sub_overflow(extent, offset, &product) || product % factor != 0 ||
        product / factor < 0)
      return std::nullopt;
    return product / factor;
  }
};

// nullopt: the dimension does not have this form.
std::optional<Linear> linear(const Dim& dim, const std::string& symbol) {
  for (const int sign : {1, -1}) {
    const auto at_zero = (dim * sign).evaluate({{symbol, 0}});
    if (!at_zero) continue;  // negative: under the other sign
    const auto factor = divide(dim - Dim(*at_zero * sign), Dim::symbol(symbol));
    if (factor && factor->is_static()) return Linear{factor->value(), *at_zero * sign};
  }
  return std::nullopt;
}

Error wrong_extent(const Node& input, size_t axis, int64_t actual) {
  return {fmt::format("axis {} of input {} is {}, the graph wants {}", axis, input.name, actual,
                      to_string(input.type)),
          input.name, "give an input of the graph's shape"};
}

}  // namespace

Result<SymbolValues> bind_symbols(const Graph& graph,
                                  const std::map<std::string, std::vector<int64_t>>& input_shapes) {
  SymbolValues symbols;
  for (const Value input : graph.inputs()) {
    const Node& node = graph[input];
    const auto given = input_shapes.find(node.name);
    if (given == input_shapes.end())
      return fail(fmt::format("input {} is missing", node.name), node.name);
    const Shape& shape = node.type.shape;
    if (given->second.size() != shape.size())
      return fail(fmt::format("input {} has rank {}, the graph wants {}", node.name,
                              given->second.size(), to_string(node.type)),
                  node.name, "reshape the input");
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      std::vector<std::string> names;
      shape[axis].collect_symbols(names);
      const int64_t actual = given->second[axis];
      // Anything else is checked once all are bound.
      if (const auto sum = names.size() == 1 ? linear(shape[axis], names[0]) : std::nullopt) {
        const std::optional<int64_t> size = sum->solve(actual);
        if (!size) return tl::make_unexpected(wrong_extent(node, axis, actual));
        const auto [slot, fresh] = symbols.emplace(names[0], *size);
        if (!fresh && slot->second != *size)
          return fail(fmt::format("dimension {} is {} elsewhere and {} in axis {} of input {}",
                                  names[0], slot->second, *size, axis, node.name),
                      node.name, "give inputs whose shapes agree");
      }
    }
  }
  for (const Value input : graph.inputs()) {
    const Node& node = graph[input];
    for (size_t axis = 0; axis < node.type.shape.size(); ++axis) {
      ATTACCA_TRY(const int64_t wanted, node.type.shape[axis].evaluate(symbols));
      const int64_t actual = input_shapes.at(node.name)[axis];
      if (wanted != actual) return tl::make_unexpected(wrong_extent(node, axis, actual));
    }
  }
  for (const Node& node : graph.nodes())
    if (node.op == Op::Slice) ATTACCA_TRY_VOID(check_slices(graph, node, symbols));
  return symbols;
}

}  // namespace attacca::ir
