// Prints graphs and expressions in the text form, so that parsing gives them back.
#include <cmath>
#include <set>

#include "fmt/format.h"

#include "ir/text/lexer.hpp"
#include "ir/text/rules.hpp"
#include "ir/text/text.hpp"
#include "support/check.hpp"

namespace attacca::ir {
namespace {

std::string real_text(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{}", value);
}

struct NumberText {
  std::string text;
  NumberKind kind;
};

// A literal as the parser reads it back. If an integer or bool dtype cannot hold the value, the
// text is a number that the parser refuses.
NumberText number_text(double value, DType dtype) {
  if (dtype == DType::Bool && (value == 0 || value == 1))
    return {value == 1 ? "true" : "false", NumberKind::Boolean};
  if (is_integer(dtype) && value == std::trunc(value) && value >= -0x1p63 && value < 0x1p63)
    return {fmt::format("{}", static_cast<int64_t>(value)), NumberKind::Integer};
  std::string text = real_text(value);
  const bool digits = text.find_first_not_of("-0123456789") == std::string::npos;
  return {std::move(text), digits ? NumberKind::Integer : NumberKind::Real};
}

std::string element_text(const Tensor& tensor, int64_t at) {
  if (tensor.dtype() == DType::Bool) return tensor.integer_at(at) ? "true" : "false";
  if (!is_float(tensor.dtype())) return fmt::format("{}", tensor.integer_at(at));
  const double value = tensor.number_at(at);
  if (tensor.dtype() == DType::F64 || std::isnan(value)) return real_text(value);
  return fmt::format("{}", static_cast<float>(value));
}

bool same_number(double a, double b) {
  return (a == b && std::signbit(a) == std::signbit(b)) || (std::isnan(a) && std::isnan(b));
}

struct Limits {
  int nesting;
  int nodes;
};

// Writes the definition of a value. Operands with a label are written as the label, others as their
// definitions.
class Writer {
 public:
  Writer(const Graph& graph, const std::vector<std::string>& labels, int64_t max_elements,
         Limits limits)
      : graph_(graph), labels_(labels), max_elements_(max_elements), limits_(limits) {}

  std::string definition(Value value) {
    out_.clear();
    define(value, Precedence::Lowest);
    return std::move(out_);
  }

 private:
  void write(Value value, Precedence least);
  void define(Value value, Precedence least);
  void operand(const Node& node, size_t index, Precedence least);
  void constant(const Node& node, Precedence least);
  void number(const Node& node, Precedence least, bool bare);
  void tensor(const Node& node);
  void slice(const Node& node);
  void call(const Node& node);
  void kernel(const Node& node);
  void attributes(const Node& node);
  void params(const Node& node);

  // Whether it is a literal without a label, which may print as a bare number.
  bool is_number(Value value) const {
    return labels_[value.id].empty() && graph_[value].literal.has_value();
  }
  bool bare_dtype_is(const Node& node, size_t index, std::optional<DType> peer) const;
  bool prints_bare(const Node& node, size_t index) const;
  Precedence precedence_of(const Node& node) const;

  const Graph& graph_;
  const std::vector<std::string>& labels_;
  int64_t max_elements_;
  Limits limits_;
  std::string out_;
};

// Whether a bare number at operand `index` would get the literal's dtype back.
bool Writer::bare_dtype_is(const Node& node, size_t index, std::optional<DType> peer) const {
  const Node& literal = graph_[node.operands[index]];
  const NumberKind kind = number_text(literal.literal->value, literal.type.dtype).kind;
  return number_dtype(node.op, index, kind, peer) == literal.type.dtype;
}

bool Writer::prints_bare(const Node& node, size_t index) const {
  const OperandRange range = adapting_operands(node.op, index, node.operands.size());
  bool all_default = true;
  for (size_t i = range.first; i < range.last; ++i) {
    const Value peer = node.operands[i];
    if (!is_number(peer)) return bare_dtype_is(node, index, graph_.type(peer).dtype);
    all_default &= bare_dtype_is(node, i, {});
  }
  if (all_default) return true;
  // If all operands are numbers, the first one is written with its dtype, and the others adapt to
  // it.
  return index != range.first &&
         bare_dtype_is(node, index, graph_.type(node.operands[range.first]).dtype);
}

Precedence Writer::precedence_of(const Node& node) const {
  if (node.compute()) return Precedence::Primary;
  if (node.op == Op::Neg)
    return is_number(node.operands[0]) ? Precedence::Primary : Precedence::Unary;
  const Infix* infix = find_infix(node.op);
  return infix ? infix->precedence : Precedence::Primary;
}

void Writer::write(Value value, Precedence least) {
  if (labels_[value.id].empty())
    define(value, least);
  else
    out_ += labels_[value.id];
}

void Writer::define(Value value, Precedence least) {
  const Node& node = graph_[value];
  if (node.op == Op::Constant) return constant(node, least);
  if (limits_.nesting == 0 || limits_.nodes == 0) {
    out_ += "...";
    return;
  }
  --limits_.nesting, --limits_.nodes;
  const Precedence own = precedence_of(node);
  if (own < least) out_ += '(';
  if (node.op == Op::Input) {
    out_ += encode_name(node.name);
  } else if (node.op == Op::Slice) {
    slice(node);
  } else if (node.op == Op::Kernel) {
    kernel(node);
  } else if (own == Precedence::Primary) {
    call(node);
  } else if (node.op == Op::Neg) {
    out_ += '-';
    operand(node, 0, Precedence::Unary);
  } else {
    operand(node, 0, own == Precedence::Comparison ? tighter(own) : own);
    out_ += fmt::format(" {} ", find_infix(node.op)->symbol);
    operand(node, 1, tighter(own));
  }
  if (own < least) out_ += ')';
  ++limits_.nesting;
}

void Writer::operand(const Node& node, size_t index, Precedence least) {
  const Value value = node.operands[index];
  if (is_number(value))
    number(graph_[value], least, prints_bare(node, index));
  else
    write(value, least);
}

void Writer::constant(const Node& node, Precedence least) {
  if (node.tensor) return tensor(node);
  const NumberKind kind = number_text(node.literal->value, node.type.dtype).kind;
  number(node, least, number_dtype(kind) == node.type.dtype);
}

void Writer::number(const Node& node, Precedence least, bool bare) {
  const std::string text = number_text(node.literal->value, node.type.dtype).text;
  if (!bare)
    out_ += fmt::format("constant({}, {})", text, name(node.type.dtype));
  else if (text[0] == '-' && least > Precedence::Unary)
    out_ += fmt::format("({})", text);
  else
    out_ += text;
}

void Writer::tensor(const Node& node) {
  out_ += fmt::format("constant({}, ", to_string(node.type));
  const auto dense = node.tensor->contiguous();
  ATTACCA_CHECK(dense.has_value(), "no memory to print a constant");
  if (max_elements_ >= 0 && dense->size() > max_elements_) {
    out_ += "...)";
    return;
  }
  out_ += '[';
  for (int64_t i = 0; i < dense->size(); ++i) {
    if (i > 0) out_ += ", ";
    out_ += element_text(*dense, i);
  }
  out_ += "])";
}

// Bounds at the ends of their axes are left out. The end -1 of a backward slice must be left out.
std::string range_text(const SliceRange& range, const Dim& extent) {
  const bool forward = range.step > 0;
  const Dim first = forward ? Dim(0) : extent - 1, last = forward ? extent : Dim(-1);
  std::string text = range.begin == first ? "" : to_string(range.begin);
  text += ':';
  if (!(range.end == last)) text += to_string(range.end);
  if (range.step != 1) text += fmt::format(":{}", range.step);
  return text;
}

void Writer::slice(const Node& node) {
  operand(node, 0, Precedence::Primary);
  const Shape& shape = graph_.type(node.operands[0]).shape;
  std::vector<std::string> ranges;
  for (size_t i = 0; i < shape.size(); ++i)
    ranges.push_back(range_text(node.get<SliceAttrs>().ranges[i], shape[i]));
  out_ += ranges.empty() ? "[...]" : fmt::format("[{}]", fmt::join(ranges, ", "));
}

void Writer::call(const Node& node) {
  out_ += name(node.op);
  out_ += '(';
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (i > 0) out_ += ", ";
    operand(node, i, Precedence::Lowest);
  }
  attributes(node);
  out_ += ')';
}

void Writer::kernel(const Node& node) {
  const KernelCall& call = node.get<KernelAttrs>().call;
  out_ += fmt::format("kernel({}", encode_name(call.file));
  size_t next = 0;
  for (const KernelArgument& argument : call.arguments) {
    out_ += ", ";
    if (const auto* scalar = std::get_if<ScalarArgument>(&argument)) {
      out_ += to_string(*scalar);
    } else if (std::holds_alternative<OutputArgument>(argument)) {
      out_ += to_string(node.type);
    } else {
      const Value operand = node.operands[next++];
      if (is_number(operand))
        number(graph_[operand], Precedence::Lowest, false);
      else
        write(operand, Precedence::Lowest);
    }
  }
  out_ += launch_text(call) + ")";
}

void Writer::attributes(const Node& node) {
  switch (info(node.op).attributes) {
    case Attributes::None:
    case Attributes::Slice:
    case Attributes::Kernel:
      return;
    case Attributes::MatMul: {
      std::vector<Type> types;
      for (const Value operand : node.operands) types.push_back(graph_.type(operand));
      const auto natural = infer(node.op, types, {});
      if (!natural || natural->type.dtype != node.type.dtype)
        out_ += fmt::format(", out={}", name(node.type.dtype));
      if (node.get<MatMulAttrs>().fast) out_ += ", fast=true";
      return;
    }
    case Attributes::Permute:
      out_ += ", " + to_string(node.get<PermuteAttrs>().axes);
      return;
    case Attributes::Blocks:
      out_ += ", " + to_string(node.get<BlocksAttrs>().block);
      return;
    case Attributes::Shape:
      out_ += (node.operands.empty() ? "" : ", ") + to_string(node.get<ShapeAttrs>().shape);
      return;
    case Attributes::Axis:
      if (const int64_t axis = node.get<AxisAttrs>().axis; axis != 0)
        out_ += fmt::format(", axis={}", axis);
      return;
    case Attributes::Cast:
      out_ += fmt::format(", {}", name(node.type.dtype));
      if (node.saturates()) out_ += ", saturate=true";
      if (node.compute()) out_ += fmt::format(", compute={}", name(*node.compute()));
      return;
    case Attributes::Unpack: {
      const auto& attrs = node.get<UnpackAttrs>();
      out_ += fmt::format(", {}, {}", to_string(attrs.shape), to_string(attrs.packing));
      if (attrs.dtype != DType::F32) out_ += fmt::format(", dtype={}", name(attrs.dtype));
      return;
    }
    case Attributes::Decode: {
      const auto& attrs = node.get<DecodeAttrs>();
      if (attrs.bits != 4) out_ += fmt::format(", bits={}", attrs.bits);
      if (attrs.zero != 0) out_ += fmt::format(", zero={}", attrs.zero);
      if (attrs.dtype != DType::BF16) out_ += fmt::format(", dtype={}", name(attrs.dtype));
      return;
    }
    case Attributes::Reduction: {
      const auto& attrs = node.get<ReductionAttrs>();
      if (attrs.axes.size() != graph_.type(node.operands[0]).shape.size())
        out_ += ", axes=" + to_string(attrs.axes);
      if (attrs.keepdims) out_ += ", keepdims=true";
      return;
    }
    case Attributes::Elementwise:
      return params(node);
  }
}

void Writer::params(const Node& node) {
  const auto known = info(node.op).params;
  for (size_t i = 0; i < known.size(); ++i)
    if (!same_number(node.params()[i], known[i].default_value))
      out_ += fmt::format(", {}={}", known[i].name, real_text(node.params()[i]));
  if (node.compute()) out_ += fmt::format(", compute={}", name(*node.compute()));
}

// Labels: the names of inputs and named nodes, and generated names for values that are not used
// exactly once or are nested too deep.
class Labels {
 public:
  explicit Labels(const Graph& graph) : graph_(graph), labels_(graph.size()) {}

  std::vector<std::string> run() {
    for (const Node& node : graph_.nodes()) taken_.insert(node.name);
    count_uses();
    std::vector<int> depth(graph_.size(), 0);
    for (uint32_t id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.nodes()[id];
      for (const Value operand : node.operands)
        depth[id] = std::max(depth[id], depth[operand.id] + 1);
      if (!node.name.empty())
        labels_[id] = encode_name(node.name);
      else if (uses_[id] != 1 || depth[id] > kMaxPrintedNesting)
        labels_[id] = encode_name(generate(Value{id}));
      if (!labels_[id].empty()) depth[id] = 0;
    }
    return std::move(labels_);
  }

 private:
  void count_uses() {
    uses_.assign(graph_.size(), 0);
    for (const Node& node : graph_.nodes())
      for (const Value operand : node.operands) ++uses_[operand.id];
    for (const Output& output : graph_.outputs()) {
      ++uses_[output.value.id];
      output_names_.emplace(output.value, output.name);
    }
  }

  // The name of an output if it is not taken, else t0, t1, ...
  std::string generate(Value value) {
    if (const auto output = output_names_.find(value); output != output_names_.end())
      if (!output->second.empty() && taken_.insert(output->second).second) return output->second;
    for (;;) {
      std::string candidate = fmt::format("t{}", next_++);
      if (taken_.insert(candidate).second) return candidate;
    }
  }

  const Graph& graph_;
  std::vector<std::string> labels_;
  std::vector<int> uses_;
  std::map<Value, std::string> output_names_;
  std::set<std::string> taken_;
  int next_ = 0;
};

std::string header(const Graph& graph) {
  std::vector<std::string> inputs;
  for (const Value input : graph.inputs())
    inputs.push_back(
        fmt::format("{}: {}", encode_name(graph[input].name), to_string(graph.type(input))));
  return fmt::format("graph {}({}) {{\n", encode_name(graph.name.empty() ? "main" : graph.name),
                     fmt::join(inputs, ", "));
}

constexpr Limits kWholeGraph{1 << 30, 1 << 30};
// The longest expression for people; the rest is `...`.
constexpr Limits kReadable{200, 4000};

}  // namespace

std::string launch_text(const KernelCall& call) {
  std::string text;
  if (!call.entry.empty()) text += ", entry=" + encode_name(call.entry);
  std::vector<std::string> grid, options;
  for (const LaunchSize& size : call.grid) grid.push_back(to_string(size));
  text +=
      fmt::format(", grid=[{}], block=[{}]", fmt::join(grid, ", "), fmt::join(call.block, ", "));
  if (call.shared != 0) text += fmt::format(", shared={}", call.shared);
  if (call.zeroed) text += ", zeroed=true";
  for (const std::string& option : call.options) options.push_back(encode_name(option));
  if (!options.empty()) text += fmt::format(", options=[{}]", fmt::join(options, ", "));
  return text;
}

std::string print_graph(const Graph& graph, const PrintOptions& options) {
  const std::vector<std::string> labels = Labels(graph).run();
  Writer writer(graph, labels, options.max_constant_elements, kWholeGraph);
  std::string text = header(graph);
  for (uint32_t id = 0; id < graph.size(); ++id)
    if (!labels[id].empty() && graph.nodes()[id].op != Op::Input)
      text += fmt::format("  {} = {}\n", labels[id], writer.definition(Value{id}));
  std::vector<std::string> outputs;
  for (const Output& output : graph.outputs()) {
    const std::string& label = labels[output.value.id];
    const std::string name = encode_name(output.name);
    const std::string implied = label.empty() ? fmt::format("out{}", outputs.size()) : label;
    std::string value = label.empty() ? writer.definition(output.value) : label;
    outputs.push_back(name == implied ? std::move(value) : fmt::format("{} = {}", name, value));
  }
  if (!outputs.empty()) text += fmt::format("  return {}\n", fmt::join(outputs, ", "));
  return text + "}\n";
}

std::string print_expression(const Graph& graph, Value value, bool through_names) {
  std::vector<std::string> labels(graph.size());
  for (uint32_t id = 0; id < graph.size(); ++id) {
    const Node& node = graph.nodes()[id];
    if (node.op == Op::Input || (!through_names && id != value.id && !node.name.empty()))
      labels[id] = encode_name(node.name);
  }
  return Writer(graph, labels, 8, kReadable).definition(value);
}

}  // namespace attacca::ir
