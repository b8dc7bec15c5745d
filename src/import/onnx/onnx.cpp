#include "import/onnx/onnx.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "fmt/format.h"

#include "import/onnx/extents.hpp"
#include "import/onnx/functions.hpp"
#include "import/onnx/nodes/branches.hpp"
#include "import/onnx/nodes/names.hpp"
#include "import/onnx/nodes/order.hpp"
#include "import/onnx/ops.hpp"
#include "import/onnx/support.hpp"
#include "import/onnx/tensor.hpp"
#include "import/onnx/wire.hpp"

namespace attacca::import {
namespace {

using ir::Dim;
using ir::Value;

constexpr int64_t kNewestOpset = 24;
constexpr int64_t kMaxNodes = 1'000'000;
constexpr std::string_view kBroadcastsAtRunTime = "attacca.broadcasts_at_run_time";
constexpr int kMaxCallDepth = 32;
constexpr int64_t kMaxFoldedMask = 1 << 20;   // elements, with those of what it is computed from
constexpr int64_t kMaxFoldedInAll = 1 << 26;  // elements of one model
constexpr size_t kMaxExpandedBytes = size_t{1} << 32;

std::string place(const onnx::NodeProto& node) {
  return fmt::format("node {} ({})", node_name(node), printable(node.op_type()));
}

tl::unexpected<Error> at(Error error, const std::string& where) {
  error.where = error.where.empty() ? where : fmt::format("{}, {}", where, error.where);
  return tl::make_unexpected(std::move(error));
}

// The names of one graph, of one call of a function, or of a branch, which reads those around it.
struct Scope {
  Opsets opsets;
  std::unordered_map<std::string, Entry> values;
  int depth = 0;
  Scope* outer = nullptr;  // of a branch

  Entry* find(const std::string& name) {
    const auto found = values.find(name);
    if (found != values.end()) return &found->second;
    return outer ? outer->find(name) : nullptr;
  }
};

class Importer {
 public:
  Importer(onnx::ModelProto& model, const std::string& directory, const FixedInputs& fixed,
           const ir::SymbolValues& sizes, SizeAssumptions& assumptions)
      : model_(model),
        directory_(directory),
        fixed_(fixed),
        extents_(sizes, assumptions.equal),
        assumptions_(assumptions) {}

  Result<ir::Graph> run() {
    ATTACCA_TRY(functions_, Functions::of(model_));
    Scope scope{read_opsets(), {}, 0};
    ATTACCA_TRY_VOID(check_opset(scope.opsets));
    ATTACCA_TRY_VOID(check_support(model_.graph(), functions_, scope.opsets));
    graph_.name = sanitised(model_.graph().name());
    ATTACCA_TRY_VOID(add_initializers(scope));
    ATTACCA_TRY_VOID(add_inputs(scope));
    ATTACCA_TRY_VOID(extents_.check_sizes());
    ATTACCA_TRY_VOID(add_nodes(model_.graph().node(), scope));
    ATTACCA_TRY_VOID(add_outputs(scope));
    return ir::without_dead_nodes(graph_);
  }

 private:
  // Models older than IR version 3 have no opset: it is the first.
  Opsets read_opsets() const {
    Opsets opsets = opsets_of(model_.opset_import());
    opsets.emplace("", 1);
    return opsets;
  }

  static Status check_opset(const Opsets& opsets) {
    const int64_t opset = opset_of(opsets, "");
    if (opset >= 1 && opset <= kNewestOpset) return {};
    return fail(fmt::format("opset {} is not supported", opset), {},
                fmt::format("export with an opset up to {}", kNewestOpset));
  }

  Status add_initializers(Scope& scope) {
    auto& graph = *model_.mutable_graph();
    ATTACCA_TRY_VOID(check_dense(graph));
    for (auto& initializer : *graph.mutable_initializer()) {
      ATTACCA_TRY(const Value value, add_initializer(initializer, scope));
      initializer.clear_raw_data();  // the numbers live in the tensor now
      name_value(value, initializer.name());
    }
    return {};
  }

  static Status check_dense(const onnx::GraphProto& graph) {
    if (graph.sparse_initializer_size() == 0) return {};
    return fail("sparse initializers are not supported", {}, "store them densely");
  }

  Result<Value> add_initializer(const onnx::TensorProto& initializer, Scope& scope) {
    const std::string where = "initializer " + printable(initializer.name());
    ATTACCA_TRY_VOID(check_name(initializer.name(), where));
    const auto entry = read_constant(graph_, initializer, directory_);
    if (!entry) return at(entry.error(), where);
    if (!scope.values.emplace(initializer.name(), *entry).second)
      return fail("the name is used twice", where, "name initializers apart");
    return *entry->value;
  }

  // An initializer listed as an input too is its default: a constant.
  Status add_inputs(Scope& scope) {
    for (const auto& input : model_.graph().input())
      if (!scope.values.count(input.name()) && !fixed_.count(input.name()))
        extents_.add_names(input);
    std::set<std::string> seen;
    for (const auto& input : model_.graph().input()) {
      const std::string where = "input " + printable(input.name());
      if (input.name().empty()) return fail("an input without a name", where);
      ATTACCA_TRY_VOID(check_name(input.name(), where));
      if (!seen.insert(input.name()).second)
        return fail("the name is used twice", where, "name inputs apart");
      if (scope.values.count(input.name())) continue;
      auto value = add_input(input);
      if (!value) return at(value.error(), where);
      scope.values.emplace(input.name(), *value);
    }
    return {};
  }

  Result<Value> add_input(const onnx::ValueInfoProto& input) {
    if (const auto known = fixed_.find(input.name()); known != fixed_.end())
      return add_constant(graph_, known->second);
    if (!input.type().has_tensor_type())
      return fail("the input is not a tensor", {},
                  "sequences, maps and optionals are not supported");
    const auto& proto = input.type().tensor_type();
    ir::Type type;
    ATTACCA_TRY(type.dtype, read_dtype(proto.elem_type()));
    if (!proto.has_shape())
      return fail("the input's rank is unknown", {}, "export the model with shapes");
    for (int axis = 0; axis < proto.shape().dim_size(); ++axis) {
      ATTACCA_TRY(Dim dim, extents_.read(proto.shape().dim(axis), input.name(), axis));
      type.shape.push_back(std::move(dim));
    }
    return graph_.input(names_.take(input.name()), std::move(type));
  }

  Status add_nodes(const Nodes& nodes, Scope& scope) {
    for (const onnx::NodeProto* node : in_order(nodes))
      if (auto status = add_node(*node, scope); !status) return at(status.error(), place(*node));
    return {};
  }

  Status add_node(const onnx::NodeProto& proto, Scope& scope) {
    if (++nodes_ > kMaxNodes) return fail(fmt::format("more than {} nodes", kMaxNodes));
    ATTACCA_TRY(const std::vector<Entry*> inputs, find_inputs(proto, scope));
    const uint32_t first = static_cast<uint32_t>(graph_.size());
    const onnx::FunctionProto* function = functions_.find(proto);
    Result<Outputs> outputs = function       ? call(*function, proto, inputs, scope)
                              : is_if(proto) ? take_branch(proto, inputs, scope)
                                             : handle(proto, inputs, scope);
    if (!outputs) return tl::make_unexpected(outputs.error());
    for (Entry& entry : outputs->entries)
      if (entry.value && entry.value->id >= first) fold_indices(*entry.value);
    return bind_outputs(proto, outputs->entries, scope, first);
  }

  // Places, sizes and masks that only depend on constants become constants. A view of a constant
  // costs nothing and stays.
  void fold_indices(Value& value) {
    const ir::Node& node = graph_[value];
    const bool index = node.type.dtype == ir::DType::S64 || node.type.dtype == ir::DType::S32 ||
                       node.type.dtype == ir::DType::Bool;
    const bool computed = ir::is_elementwise(node.op) || ir::is_reduction(node.op) ||
                          node.op == ir::Op::Cast || node.op == ir::Op::Arange ||
                          node.op == ir::Op::Gather || node.op == ir::Op::Concat;
    if (!index || !computed || folded_elements_ > kMaxFoldedInAll) return;
    Dim read = ir::element_count(node.type.shape);
    for (const Value operand : node.operands)
      read = read + ir::element_count(graph_.type(operand).shape);
    auto tensor = fold_constant(graph_, value, kMaxFoldedMask);
    if (!tensor) return;
    folded_elements_ += read.maybe_value().value_or(kMaxFoldedMask);
    value = add_constant(graph_, *std::move(tensor));
  }

  Result<std::vector<Entry*>> find_inputs(const onnx::NodeProto& proto, Scope& scope) const {
    std::vector<Entry*> inputs;
    for (const std::string& name : proto.input()) {
      if (name.empty()) {
        inputs.push_back(nullptr);
        continue;
      }
      Entry* found = scope.find(name);
      if (found == nullptr)
        return fail(fmt::format("nothing before it defines its input {}", printable(name)), {},
                    "remove the cycle, or define it");
      inputs.push_back(found);
    }
    while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
    return inputs;
  }

  Result<Outputs> handle(const onnx::NodeProto& proto, const std::vector<Entry*>& inputs,
                         const Scope& scope) {
    const std::string domain = standard_domain(proto.domain());
    const int64_t opset = opset_of(scope.opsets, domain);
    const OpRow* row = find_op(domain, proto.op_type(), opset);
    if (row == nullptr) return fail(fmt::format("opset {} has no such op", opset));
    ATTACCA_TRY_VOID(check_bits(proto, *row, inputs));
    Node node(graph_, proto, opset, *row, inputs, directory_, assumptions_);
    Result<Outputs> outputs = handle_known(node, *row);
    if (node.attribute_error()) return tl::make_unexpected(*node.attribute_error());
    if (outputs) assumptions_.missing.reset();
    return outputs;
  }

  static Status check_bits(const onnx::NodeProto& proto, const OpRow& row,
                           const std::vector<Entry*>& inputs) {
    if (row.handler == dequantize_linear || row.handler == cast_to) return {};
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == nullptr) continue;
      const std::string& name = proto.input(static_cast<int>(i));
      if (inputs[i]->four_bits)
        return fail(fmt::format("input {} is of 4-bit integers", name), {},
                    std::string(kFourBitsFix));
      if (inputs[i]->sixteen_bits && row.handler != quantize_linear)
        return fail(fmt::format("input {} is of 16-bit integers", name), {},
                    "dequantise it first, or quantise to int8 or uint8");
    }
    return {};
  }

  static Result<Outputs> handle_known(Node& node, const OpRow& row) {
    if (row.known == nullptr || node.inputs() == 0) return row.handler(node);
    std::vector<Known> operands;
    for (size_t i = 0; i < node.inputs(); ++i) {
      auto known = node.known(i);
      if (!known) return row.handler(node);
      operands.push_back(*std::move(known));
    }
    if (auto result = row.known(node, operands)) return Outputs(*std::move(result));
    return row.handler(node);
  }

  Status bind_outputs(const onnx::NodeProto& proto, std::vector<Entry>& entries, Scope& scope,
                      uint32_t first) {
    for (int i = 0; i < proto.output_size(); ++i) {
      const std::string& name = proto.output(i);
      if (name.empty()) continue;
      ATTACCA_TRY_VOID(check_name(name, {}));
      if (static_cast<size_t>(i) >= entries.size())
        return fail(fmt::format("output {} ({}) is not supported", i, printable(name)), {},
                    "export the model without it, or run the file with ONNX Runtime");
      Entry& entry = entries[static_cast<size_t>(i)];
      if (entry.value && entry.value->id >= first && scope.depth == 0)
        name_value(*entry.value, name);
      if (!scope.values.emplace(name, std::move(entry)).second)
        return fail(fmt::format("{} is defined twice", printable(name)), {}, "name outputs apart");
    }
    return {};
  }

  // Inlines a model-local function.
  Result<Outputs> call(const onnx::FunctionProto& function, const onnx::NodeProto& caller,
                       const std::vector<Entry*>& inputs, const Scope& outer) {
    if (outer.depth >= kMaxCallDepth)
      return fail(fmt::format("functions call each other deeper than {}", kMaxCallDepth), {},
                  "they must not be recursive");
    Scope scope{opsets_of(function.opset_import()), {}, outer.depth + 1};
    ATTACCA_TRY_VOID(check_opset_if_used(scope.opsets));
    if (inputs.size() > static_cast<size_t>(function.input_size()))
      return fail(
          fmt::format("{} inputs for a function of {}", inputs.size(), function.input_size()));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] != nullptr) scope.values[function.input(static_cast<int>(i))] = *inputs[i];
    ATTACCA_TRY_VOID(add_body(function, caller, scope));
    std::vector<Entry> results;
    for (const std::string& name : function.output()) {
      const auto found = scope.values.find(name);
      if (found == scope.values.end())
        return fail(fmt::format("the function does not define its output {}", printable(name)));
      results.push_back(found->second);
    }
    return results;
  }

  // Reads the branch of an If that its condition takes, in place of the If.
  Result<Outputs> take_branch(const onnx::NodeProto& proto, const std::vector<Entry*>& inputs,
                              Scope& outer) {
    if (outer.depth >= kMaxCallDepth)
      return fail(fmt::format("branches are nested deeper than {}", kMaxCallDepth));
    if (inputs.empty() || inputs[0] == nullptr)
      return fail("input 0 is missing", {}, "give the node its condition");
    const auto condition = known_numbers(graph_, *inputs[0]);
    const std::optional<int64_t> taken = condition && condition->elements.size() == 1
                                             ? condition->elements[0].maybe_value()
                                             : std::nullopt;
    if (!taken)
      return fail("which branch is taken depends on the data, or on a size", {},
                  "fix the sizes that its condition reads (--dim NAME=SIZE, in Python dims=), or "
                  "run the file with "
                  "ONNX Runtime");
    ATTACCA_TRY(const onnx::GraphProto* graph, branch_of(proto, *taken != 0));
    Scope scope{outer.opsets, {}, outer.depth + 1, &outer};
    ATTACCA_TRY_VOID(check_dense(*graph));
    for (const auto& initializer : graph->initializer())
      ATTACCA_TRY_VOID(add_initializer(initializer, scope));
    ATTACCA_TRY_VOID(add_nodes(graph->node(), scope));
    std::vector<Entry> results;
    for (const auto& output : graph->output()) {
      const Entry* found = scope.find(output.name());
      if (found == nullptr)
        return fail(
            fmt::format("the branch does not define its output {}", printable(output.name())));
      results.push_back(*found);
    }
    return results;
  }

  static Status check_opset_if_used(const Opsets& opsets) {
    return opsets.count("") ? check_opset(opsets) : Status{};
  }

  Status add_body(const onnx::FunctionProto& function, const onnx::NodeProto& caller,
                  Scope& scope) {
    expanded_ += function.ByteSizeLong();
    if (expanded_ > kMaxExpandedBytes)
      return fail(
          fmt::format("the calls of functions expand to more than {} bytes", kMaxExpandedBytes));
    for (const onnx::NodeProto& node : body_of_call(function, caller))
      if (auto status = add_node(node, scope); !status) return at(status.error(), place(node));
    return {};
  }

  Status add_outputs(Scope& scope) {
    std::vector<std::string> listed;
    for (const auto& output : model_.graph().output()) listed.push_back(output.name());
    const std::vector<std::string> names = distinct_names(listed);
    for (const auto& output : model_.graph().output()) {
      const std::string where = "output " + printable(output.name());
      ATTACCA_TRY_VOID(check_name(output.name(), where));
      const auto found = scope.values.find(output.name());
      if (found == scope.values.end())
        return fail("no node defines it", where, "export the model again");
      if (found->second.four_bits)
        return fail("4-bit integers are not supported as an output", where,
                    std::string(kFourBitsFix));
      if (found->second.sixteen_bits)
        return fail("16-bit integers are not supported as an output", where,
                    "dequantise it, or quantise to int8 or uint8");
      auto value = materialise(graph_, found->second);
      if (!value) return at(value.error(), where);
      if (auto status = check_declared(output, *value); !status) return at(status.error(), where);
      graph_.add_output(*value, names[graph_.outputs().size()]);
    }
    if (graph_.outputs().empty()) return fail("the graph has no outputs");
    return {};
  }

  // An output need not say its element type.
  Status check_declared(const onnx::ValueInfoProto& output, Value value) const {
    const int32_t code = output.type().tensor_type().elem_type();
    const ir::DType computed = graph_.type(value).dtype;
    if (code == onnx::TensorProto::UNDEFINED) return {};
    if (const auto declared = read_dtype(code); declared && *declared == computed) return {};
    return fail(
        fmt::format("declared as {}, computed as {}", onnx_dtype_name(code), ir::name(computed)),
        {}, "declare the type that is computed, or insert a Cast");
  }

  // Scalars stay anonymous: they print as numbers.
  void name_value(Value value, const std::string& name) {
    const ir::Node& node = graph_[value];
    if (node.op == ir::Op::Input || node.literal || !node.name.empty() || name.empty()) return;
    (void)graph_.set_name(value, names_.take(name));
  }

  onnx::ModelProto& model_;
  const std::string& directory_;
  const FixedInputs& fixed_;
  InputExtents extents_;
  SizeAssumptions& assumptions_;
  ir::Graph graph_;
  NameSet names_;
  Functions functions_;
  int64_t nodes_ = 0;
  size_t expanded_ = 0;
  int64_t folded_elements_ = 0;
};

// Whether symbols that differ may be broadcast when a model runs: that of one who runs it otherwise
// where Attacca refuses it, as the ONNX Runtime plug-in does.
bool broadcasts_at_run_time(const onnx::ModelProto& model) {
  return std::any_of(model.metadata_props().begin(), model.metadata_props().end(),
                     [](const auto& each) { return each.key() == kBroadcastsAtRunTime; });
}

// Slices are clamped to axes of any length first. Where the lengths that arise agree with no
// others, the model counts on axes that are long enough: then it is read so. Extents of different
// symbols count as equal where an op needs that; a plan checks them.
template <class Read>
Result<ir::Graph> import_model(const Read& read, const std::string& directory,
                               const FixedInputs& fixed, const ir::SymbolValues& sizes) {
  for (SizeAssumptions assumed;;) {
    ATTACCA_TRY(const auto model, read());  // the importer takes the weights out of the model
    const bool may_be_one = broadcasts_at_run_time(*model);
    assumed.allow_empty = may_be_one;
    auto graph = Importer(*model, directory, fixed, sizes, assumed).run();
    if (graph) return graph;
    auto next = more_assumed(assumed, may_be_one);
    if (!next) return graph;
    assumed = *std::move(next);
  }
}

}  // namespace

Result<ir::Graph> parse_onnx(std::string_view bytes, const std::string& directory,
                             const FixedInputs& fixed, const ir::SymbolValues& sizes) {
  return import_model([&] { return parse_model(bytes); }, directory, fixed, sizes);
}

Result<ir::Graph> read_onnx(const std::string& path, const FixedInputs& fixed,
                            const ir::SymbolValues& sizes) {
  const auto parent = std::filesystem::path(path).parent_path();
  const std::string directory = parent.empty() ? "." : parent.string();
  auto graph = import_model([&] { return read_model(path); }, directory, fixed, sizes);
  if (!graph) return at(graph.error(), path);
  return graph;
}

}  // namespace attacca::import
