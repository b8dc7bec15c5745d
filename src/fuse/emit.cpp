#include "fuse/emit.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <utility>

#include "fuse/gathers.hpp"
#include "fuse/operands.hpp"
#include "support/check.hpp"

namespace attacca::fuse {
namespace {

using epilogue::Epilogue;
using epilogue::Input;
using epilogue::OutputKind;
using epilogue::Role;
using ir::Dim;
using ir::DType;
using ir::Op;
using ir::Shape;
using ir::Value;

// One-element constants that a double holds exactly become literals of the expression.
std::optional<double> literal_of(const ir::Node& node) {
  if (node.literal) return node.literal->value;
  if (!node.tensor || node.tensor->size() != 1) return std::nullopt;
  if (!ir::is_integer(node.type.dtype)) return node.tensor->number_at(0);
  const int64_t value = node.tensor->integer_at(0);
  constexpr int64_t kExact = int64_t{1} << 53;
  if (value > kExact || value < -kExact) return std::nullopt;
  return static_cast<double>(value);
}

// The whole node, with numbers as bits: 0 and -0 differ, a NaN equals itself. The binding names
// every field, so a new one does not compile until it is part of the key.
auto key_of(const epilogue::Node& node) {
  const auto& [op, operands, params, literal, dtype, compute, saturate, function] = node;
  const auto bits = [](double number) { return std::bit_cast<uint64_t>(number); };
  std::vector<uint64_t> param_bits(params.size());
  std::transform(params.begin(), params.end(), param_bits.begin(), bits);
  return std::tuple(op, operands, std::move(param_bits), bits(literal), dtype, compute, saturate,
                    function);
}
using NodeKey = decltype(key_of(std::declval<const epilogue::Node&>()));

// While the epilogue is built, inputs count 0, 1, ... and nodes -1, -2, ...
class Emission {
 public:
  Emission(const Workspace& work, Draft& draft)
      : work_(work), facts_(work.facts), graph_(work.graph()), draft_(draft) {
    result_.domain = draft.frames.domain();
  }

  Epilogue run(const std::vector<Value>& nodes, const std::vector<Value>& outputs) {
    for (const Value node : nodes) {
      if (draft_.reduced.count(node.id)) continue;
      for (const Frame* frame : draft_.frames_of(node)) emit(node, frame);
    }
    for (const Value node : outputs) result_.outputs.push_back(output(node));
    const int inputs = static_cast<int>(result_.inputs.size());
    const auto renumber = [&](int& ref) { ref = ref >= 0 ? ref : inputs - ref - 1; };
    for (epilogue::Node& node : result_.nodes)
      for (int& operand : node.operands) renumber(operand);
    for (epilogue::Output& output : result_.outputs) renumber(output.value);
    return std::move(result_);
  }

 private:
  int emit(Value value, const Frame* frame) {
    const auto [slot, fresh] = emitted_.try_emplace({value.id, frame}, 0);
    if (!fresh) return slot->second;
    const int ref = emit_new(value, frame);
    emitted_[{value.id, frame}] = ref;
    return ref;
  }

  int emit_new(Value value, const Frame* frame) {
    const ir::Node& node = graph_[value];
    if (!work_.owns(draft_, value)) {
      // Every view of a single number is the number itself.
      if (const auto literal = literal_of(graph_[facts_.views[value.id].source]))
        return add_literal(*literal, node.type.dtype);
      return add_operand(value, frame);
    }
    if (starts_region(node.op)) return add_accumulator(value, frame);
    if (is_view_op(node.op))
      return emit(node.operands[0], draft_.frames.read(frame, value, node.operands[0]));
    epilogue::Node step{.op = node.op,
                        .operands = {},
                        .params = node.params(),
                        .literal = 0,
                        .dtype = node.type.dtype,
                        .compute = node.compute(),
                        .saturate = node.saturates()};
    for (const Value operand : node.operands)
      step.operands.push_back(emit(operand, draft_.frames.read(frame, value, operand)));
    return add_node(std::move(step));
  }

  // Equal steps are merged.
  int add_node(epilogue::Node node) {
    const auto [slot, fresh] = steps_.try_emplace(key_of(node), 0);
    if (fresh) {
      result_.nodes.push_back(std::move(node));
      slot->second = -static_cast<int>(result_.nodes.size());
    }
    return slot->second;
  }

  int add_literal(double value, DType dtype) {
    return add_node({.op = Op::Constant,
                     .operands = {},
                     .params = {},
                     .literal = value,
                     .dtype = dtype,
                     .compute = {},
                     .saturate = false});
  }

  int add_input(Input input) {
    const auto same = [&](const Input& other) {
      return other.source == input.source && other.role == input.role &&
             other.column_offset == input.column_offset && other.column_step == input.column_step &&
             other.access == input.access && other.rows == input.rows &&
             other.group_stride == input.group_stride;
    };
    const auto found = std::find_if(result_.inputs.begin(), result_.inputs.end(), same);
    if (found != result_.inputs.end()) return static_cast<int>(found - result_.inputs.begin());
    result_.inputs.push_back(std::move(input));
    return static_cast<int>(result_.inputs.size()) - 1;
  }

  int add_operand(Value value, const Frame* frame) {
    const View& view = facts_.views[value.id];
    Input input;
    if (auto of_groups = operand_of_groups(work_, draft_, value, frame)) {
      input.dtype = graph_.type(view.source).dtype;
      input.source = of_groups->source;
      input.access = std::move(of_groups->access);
      input.group_stride = std::exchange(input.access.strides[0], 0);
      input.role = role_of(input.access.strides);
      return add_input(std::move(input));
    }
    if (auto gathered = gathered_operand(work_, draft_, value, frame)) {
      input.role = role_of(gathered->access.strides);
      input.dtype = graph_.type(view.source).dtype;
      input.source = gathered->source;
      input.access = std::move(gathered->access);
      input.rows = std::move(gathered->rows);
      return add_input(std::move(input));
    }
    auto access = draft_.frames.to_domain(frame, value, view.access);
    ATTACCA_CHECK(access.has_value(), "an operand that joined cannot be reached");
    input.role = role_of(access->strides);
    input.dtype = graph_.type(view.source).dtype;
    input.source = view.source;
    input.access = *std::move(access);
    return add_input(std::move(input));
  }

  int add_accumulator(Value matmul, const Frame* frame) {
    Input input;
    input.role = Role::Accumulator;
    input.dtype = accumulator_of(facts_, matmul);
    input.rounded = graph_.type(matmul).dtype;
    input.source = matmul;
    const auto which = std::find(draft_.gemms.begin(), draft_.gemms.end(), matmul);
    input.gemm = static_cast<int>(which - draft_.gemms.begin());
    if (frame != draft_.frames.root()) {
      const Access dense{0, dense_strides(graph_.type(matmul).shape)};
      const auto access = draft_.frames.to_domain(frame, matmul, dense);
      ATTACCA_CHECK(access.has_value(), "a gate's columns cannot be reached");
      std::vector<Dim> expected = dense_strides(graph_.type(matmul).shape);
      expected.back() = access->strides.back();
      ATTACCA_CHECK(access->strides == expected, "a gate that rearranges its product");
      input.column_offset = access->offset;
      if (!result_.domain.back().is(1)) input.column_step = access->strides.back().value();
    }
    return add_input(std::move(input));
  }

  epilogue::Output output(Value node) {
    epilogue::Output out;
    out.dtype = graph_.type(node).dtype;
    out.result = node;
    if (graph_[node].op == Op::ScatterAdd) {
      describe_added_rows(node, out);
      return out;
    }
    if (draft_.reduced.count(node.id)) {
      describe_reduction(node, out);
      return out;
    }
    const Frame* frame = draft_.behind(node);
    out.value = emit(node, frame);
    out.access.strides = dense_strides(draft_.frames.domain());
    if (frame) {
      auto access =
          draft_.frames.to_domain(frame, node, {0, dense_strides(graph_.type(node).shape)});
      ATTACCA_CHECK(access.has_value(), "a result that joined cannot be reached");
      out.access = *std::move(access);
    }
    return out;
  }

  void describe_added_rows(Value node, epilogue::Output& out) {
    const ir::Node& n = graph_[node];
    const View &base = facts_.views[n.operands[0].id], &index = facts_.views[n.operands[1].id];
    out.kind = OutputKind::ScatterAdd;
    out.reduction = n.op;
    out.value = emit(n.operands[2], draft_.frames.root());
    out.access.strides = dense_strides(n.type.shape);
    out.rows = epilogue::RowIndex{index.source, index.access, n.type.shape[0],
                                  graph_.type(n.operands[1]).dtype};
    out.base = base.source;
    out.base_access = base.access;
  }

  // The operand of a joined reduction has the domain's shape.
  void describe_reduction(Value node, epilogue::Output& out) {
    const ir::Node& n = graph_[node];
    const size_t rank = result_.domain.size(), reduced = n.get<ir::ReductionAttrs>().axes.size();
    const int64_t last = n.get<ir::ReductionAttrs>().axes.back();
    out.kind = reduced == rank                          ? OutputKind::FullReduce
               : last == static_cast<int64_t>(rank) - 1 ? OutputKind::RowReduce
               : last < static_cast<int64_t>(rank) - 2  ? OutputKind::BatchReduce
                                                        : OutputKind::ColumnReduce;
    out.reduction = n.op;
    out.value = emit(n.operands[0], draft_.frames.root());
    ir::Shape kept = result_.domain;
    for (const int64_t axis : n.get<ir::ReductionAttrs>().axes) kept[axis] = 1;
    out.access.strides = dense_strides(kept);
  }

  const Workspace& work_;
  const Facts& facts_;
  const ir::Graph& graph_;
  Draft& draft_;
  Epilogue result_;
  std::map<std::pair<uint32_t, const Frame*>, int> emitted_;
  std::map<NodeKey, int> steps_;
};

// Products in the order in which the canonical expression reads them.
void number_products(Draft& draft, Epilogue& epilogue) {
  std::vector<Value> order;
  for (Input& input : epilogue.inputs) {
    if (input.role != Role::Accumulator) continue;
    const auto known = std::find(order.begin(), order.end(), input.source);
    input.gemm = static_cast<int>(known - order.begin());
    if (known == order.end()) order.push_back(input.source);
  }
  ATTACCA_CHECK(order.size() == draft.gemms.size(), "an epilogue that ignores a product");
  draft.gemms = std::move(order);
}

}  // namespace

Epilogue emit_epilogue(const Workspace& work, Draft& draft, const std::vector<Value>& nodes,
                       const std::vector<Value>& outputs) {
  Epilogue result = epilogue::canonicalize(Emission(work, draft).run(nodes, outputs));
  number_products(draft, result);
  return result;
}

}  // namespace attacca::fuse
