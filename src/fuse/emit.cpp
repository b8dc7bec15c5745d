#include "fuse/emit.hpp"

#include <algorithm>
#include <utility>

#include "fmt/format.h"

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

DType accumulator_of(const Facts& facts, Value matmul) {
  const ir::Node& node = facts.graph[matmul];
  if (node.op == Op::Kernel) return node.type.dtype;
  const DType a = facts.graph.type(node.operands[0]).dtype;
  const DType b = facts.graph.type(node.operands[1]).dtype;
  if (ir::is_integer(a)) return DType::S32;
  const bool wide = a == DType::F64 || b == DType::F64 || node.type.dtype == DType::F64;
  return wide ? DType::F64 : DType::F32;
}

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
    std::string key = fmt::format(
        "{} {} {} {} {} {} {}", static_cast<int>(node.op), fmt::join(node.operands, ","),
        fmt::join(node.params, ","), node.literal, static_cast<int>(node.dtype),
        node.compute ? static_cast<int>(*node.compute) : -1, node.saturate);
    const auto [slot, fresh] = steps_.try_emplace(std::move(key), 0);
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
  std::map<std::string, int> steps_;
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

// A matrix of each batch, or its transpose.
GemmOperand matrices_of(const Facts& facts, Value value, bool transposed, const ir::Shape& batch) {
  const View& view = facts.views[value.id];
  ir::Shape shape = facts.graph.type(value).shape;
  std::vector<Dim> own = view.access.strides;
  if (transposed) {
    std::swap(shape[shape.size() - 2], shape.back());
    std::swap(own[own.size() - 2], own.back());
  }
  ir::Shape whole = batch;
  whole.insert(whole.end(), shape.end() - 2, shape.end());
  std::vector<Dim> strides = broadcast_strides(shape, own, whole);
  // An axis of extent 1 gets the stride that a second row or column would have.
  Dim &row = strides[strides.size() - 2], &column = strides.back();
  if (whole.back().is(1)) column = 1;
  if (whole[whole.size() - 2].is(1)) row = column * whole.back();
  return {
      view.source, facts.graph.type(view.source).dtype, {view.access.offset, std::move(strides)}};
}

GemmOperand operand_of(const Facts& facts, Value matmul, size_t index, const ir::Shape& batch) {
  return matrices_of(facts, facts.graph[matmul].operands[index], false, batch);
}

GroupEnds groups_of(const Facts& facts, Value matmul) {
  const Value offsets = facts.graph[matmul].operands[2];
  const View& view = facts.views[offsets.id];
  return {view.source, view.access, facts.graph.type(offsets).shape[0]};
}

// How an operand accesses a value.
enum class Standing : uint8_t { AsIs, Transposed, Otherwise };

// `rank`: of a value whose matrices may be transposed.
Standing standing_of(const Facts& facts, Value operand, size_t rank = 2) {
  const View& view = facts.views[operand.id];
  const Shape& shape = facts.graph.type(operand).shape;
  const Shape& own = facts.graph.type(view.source).shape;
  if (!view.access.offset.is(0)) return Standing::Otherwise;
  std::vector<Dim> dense = dense_strides(own);
  if (shape == own && view.access.strides == dense) return Standing::AsIs;
  if (own.size() != rank) return Standing::Otherwise;
  Shape transposed = own;
  std::swap(transposed[rank - 2], transposed[rank - 1]);
  std::swap(dense[rank - 2], dense[rank - 1]);
  const bool is_transposed = shape == transposed && view.access.strides == dense;
  return is_transposed ? Standing::Transposed : Standing::Otherwise;
}

// How B accesses a matrix, or the matrices of groups.
Standing standing_of_b(const Facts& facts, Value matmul) {
  const ir::Node& product = facts.graph[matmul];
  return standing_of(facts, product.operands[1], product.op == Op::GroupedMatMul ? 3 : 2);
}

// A and B by their scale_blocks ops. `matrices`: the axes in front of B's matrices.
void scale_operands(const Facts& facts, const ScaledOperands& scaled, const Shape& matrices,
                    Gemm& gemm) {
  GemmOperand* const operands[] = {&gemm.a, &gemm.b};
  for (size_t i = 0; i < 2; ++i) {
    const bool transposed = i == 1 && standing_of_b(facts, gemm.node) == Standing::Transposed;
    const Shape& batch = i == 0 ? gemm.batch : matrices;
    const std::vector<Value>& own = facts.graph[scaled.of[i]].operands;
    *operands[i] = matrices_of(facts, own[0], transposed, batch);
    GemmOperand scales = matrices_of(facts, own[1], transposed, batch);
    operands[i]->scales = BlockScales{scales.source, std::move(scales.access)};
  }
}

}  // namespace

std::optional<ScaledOperands> scaled_operands(const Facts& facts, Value matmul) {
  const ir::Node& product = facts.graph[matmul];
  if (!is_product(product.op)) return std::nullopt;
  ScaledOperands result;
  for (size_t i = 0; i < 2; ++i) {
    const Value operand = product.operands[i];
    result.of[i] = facts.views[operand.id].source;
    const ir::Node& node = facts.graph[result.of[i]];
    if (node.op != Op::ScaleBlocks || node.type.shape.size() < 2 ||
        !ir::is_fp8(facts.graph.type(node.operands[0]).dtype) ||
        facts.graph.type(node.operands[1]).dtype != DType::F32)
      return std::nullopt;
    const Standing standing = i == 0 ? standing_of(facts, operand) : standing_of_b(facts, matmul);
    if (standing != Standing::AsIs && (i == 0 || standing != Standing::Transposed))
      return std::nullopt;
    std::vector<int64_t> block(node.type.shape.size(), 1);
    block.back() = kScaleBlock;
    if (i == 1) block[block.size() - 2] = kScaleBlock;
    if (node.get<ir::BlocksAttrs>().block != block) return std::nullopt;
  }
  return result;
}

std::optional<Value> packed_weights(const Facts& facts, Value matmul) {
  if (facts.graph[matmul].op != Op::MatMul) return std::nullopt;
  const Value operand = facts.graph[matmul].operands[1];
  const View& view = facts.views[operand.id];
  const ir::Node& node = facts.graph[view.source];
  if (node.op != Op::Unpack || facts.graph.type(operand).shape.size() != 2) return std::nullopt;
  // Kernels begin to read weights before the preceding kernel has ended.
  const Op from = facts.graph[node.operands[0]].op;
  if (from != Op::Input && from != Op::Constant) return std::nullopt;
  const std::vector<Dim> dense = dense_strides(node.type.shape);
  const bool whole =
      facts.graph.type(operand).shape == Shape{node.type.shape[1], node.type.shape[0]};
  const bool transposed = view.access.strides == std::vector<Dim>{dense[1], dense[0]};
  if (!whole || !transposed || !view.access.offset.is(0)) return std::nullopt;
  return view.source;
}

std::optional<Value> widened_weights(const Facts& facts, Value matmul) {
  const ir::Node& product = facts.graph[matmul];
  if (product.op != Op::MatMul) return std::nullopt;
  const View& view = facts.views[product.operands[1].id];
  const ir::Node& node = facts.graph[view.source];
  if (node.op != Op::Cast || standing_of(facts, product.operands[1]) == Standing::Otherwise)
    return std::nullopt;
  const DType dtype = node.type.dtype, from = facts.graph.type(node.operands[0]).dtype;
  const bool half = dtype == DType::F16 || dtype == DType::BF16;
  if (!half || (from != DType::S8 && from != DType::U8)) return std::nullopt;
  if (facts.graph.type(product.operands[0]).dtype != dtype) return std::nullopt;
  if (facts.views[product.operands[0].id].source == view.source) return std::nullopt;
  const Op origin = facts.graph[facts.views[node.operands[0].id].source].op;
  if (origin != Op::Input && origin != Op::Constant) return std::nullopt;
  return view.source;
}

std::optional<Value> inner_weights(const Workspace& work, Value matmul) {
  if (!work.options.quantized_operands) return std::nullopt;
  if (const auto packed = packed_weights(work.facts, matmul)) return packed;
  return widened_weights(work.facts, matmul);
}

Gemm describe_gemm(const Workspace& work, Value matmul) {
  const Facts& facts = work.facts;
  const ir::Node& node = facts.graph[matmul];
  const ir::Shape& shape = node.type.shape;
  Gemm gemm;
  gemm.node = matmul;
  gemm.batch = ir::Shape(shape.begin(), shape.end() - 2);
  if (node.op == Op::GroupedMatMul) gemm.groups = groups_of(facts, matmul);
  const Shape matrices = gemm.groups ? Shape{gemm.groups->count} : gemm.batch;
  gemm.a = operand_of(facts, matmul, 0, gemm.batch);
  gemm.b = operand_of(facts, matmul, 1, matrices);
  if (const auto packed =
          work.options.quantized_operands ? packed_weights(facts, matmul) : std::nullopt) {
    const auto layout = ir::packed_layout(facts.graph[*packed].get<ir::UnpackAttrs>());
    ATTACCA_CHECK(layout.has_value(), "an unpack op of no layout");
    gemm.b.packed = *layout;
    gemm.b.source = facts.graph[*packed].operands[0];
  }
  if (const auto widened =
          work.options.quantized_operands ? widened_weights(facts, matmul) : std::nullopt)
    gemm.b = matrices_of(facts, facts.graph[*widened].operands[0],
                         standing_of(facts, node.operands[1]) == Standing::Transposed, gemm.batch);
  if (const auto scaled =
          work.options.quantized_operands ? scaled_operands(facts, matmul) : std::nullopt)
    scale_operands(facts, *scaled, matrices, gemm);
  if (auto gathered = gathered_a(work, matmul)) {
    gemm.a.source = gathered->source;
    gemm.a.access = std::move(gathered->access);
    gemm.a.rows = std::move(gathered->rows);
  }
  if (const auto weights = coded_weights(work, matmul)) {
    gemm.b.source = facts.views[facts.graph[*weights].operands[0].id].source;
    const std::vector<Value>& operands = facts.graph[*weights].operands;
    gemm.b.codes = {*ir::code_format(facts.graph, facts.graph[*weights]),
                    facts.views[operands[1].id].source};
    if (operands.size() > 2) gemm.b.codes->zeros = facts.views[operands[2].id].source;
  }
  gemm.m = shape[shape.size() - 2];
  gemm.n = shape.back();
  gemm.k = facts.graph.type(node.operands[0]).shape.back();
  gemm.accumulator = accumulator_of(facts, matmul);
  gemm.fast = facts.graph[matmul].get<ir::MatMulAttrs>().fast;
  return gemm;
}

Epilogue emit_epilogue(const Workspace& work, Draft& draft, const std::vector<Value>& nodes,
                       const std::vector<Value>& outputs) {
  Epilogue result = epilogue::canonicalize(Emission(work, draft).run(nodes, outputs));
  number_products(draft, result);
  return result;
}

}  // namespace attacca::fuse
