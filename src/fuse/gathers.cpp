// Operands that a region reads without the op that computes them: rows that a gather chooses, by an
// index or by the rows' groups, and weights in codes.
#include <algorithm>

#include "fuse/workspace.hpp"

namespace attacca::fuse {
namespace {

using ir::Dim;
using ir::Op;
using ir::Value;

// The matrix and the index of a gather of whole rows.
std::optional<GatheredRows> rows_of(const Facts& facts, Value gather) {
  const ir::Node& node = facts.graph[gather];
  if (node.op != Op::Gather || node.get<ir::AxisAttrs>().axis != 0) return std::nullopt;
  const ir::Type &from = facts.graph.type(node.operands[0]),
                 &index = facts.graph.type(node.operands[1]);
  if (from.shape.size() != 2 || index.shape.size() != 1) return std::nullopt;
  for (const Value operand : node.operands)
    if (facts.graph[facts.views[operand.id].source].literal) return std::nullopt;
  const View &x = facts.views[node.operands[0].id], &at = facts.views[node.operands[1].id];
  return GatheredRows{x.source, x.access, {at.source, at.access, from.shape[0], index.dtype}};
}

bool is_dense(const Facts& facts, Value value, const Access& access) {
  return access.offset.is(0) && access.strides == dense_strides(facts.graph.type(value).shape);
}

// Whether `count` columns from `first` on, `step` apart, lie in a row of `width`.
bool is_in_row(const Dim& first, const Dim& step, const Dim& count, const Dim& width) {
  if (first.is(0) && (step.is(0) || (step.is(1) && count == width))) return true;
  const auto at = first.maybe_value(), by = step.maybe_value(), of = count.maybe_value(),
             whole = width.maybe_value();
  if (!at || !by || !of || !whole || *at < 0 || *by < 0) return false;
  return *of <= 0 || *at + (*of - 1) * *by < *whole;
}

// Whether all that reads a value are nodes that `reads` names, each of which reads it once, as its
// first operand.
template <class Reads>
bool only_first_operand_of(const Facts& facts, Value value, const Reads& reads) {
  const std::vector<Value>& users = facts.users[value.id];
  return !facts.is_output[value.id] && std::all_of(users.begin(), users.end(), [&](Value user) {
    const ir::Node& node = facts.graph[user];
    return reads(user) && node.operands[0] == value &&
           std::count(node.operands.begin(), node.operands.end(), value) == 1;
  });
}

// Whether a value is A of grouped products and nothing else.
bool only_grouped_products_read(const Facts& facts, Value value) {
  return only_first_operand_of(
      facts, value, [&](Value user) { return facts.graph[user].op == Op::GroupedMatMul; });
}

// The gathered rows that a scale_blocks, A of grouped products, multiplies by their scales.
std::optional<GatheredRows> rows_of_blocks(const Facts& facts, Value scaled) {
  const View& view = facts.views[facts.graph[scaled].operands[0].id];
  const bool alone =
      only_grouped_products_read(facts, scaled) &&
      only_first_operand_of(facts, view.source, [&](Value user) { return user == scaled; });
  if (!alone || !is_dense(facts, view.source, view.access)) return std::nullopt;
  return rows_of(facts, view.source);
}

}  // namespace

std::optional<GatheredRows> gathered_a(const Workspace& work, Value matmul) {
  if (!is_product(work.graph()[matmul].op)) return std::nullopt;
  const Value a = work.graph()[matmul].operands[0];
  const View& view = work.facts.views[a.id];
  if (work.options.quantized_operands)
    if (const auto scaled = scaled_operands(work.facts, matmul))
      return work.options.grouped_rows && work.graph()[matmul].op == Op::GroupedMatMul
                 ? rows_of_blocks(work.facts, scaled->of[0])
                 : std::nullopt;
  const bool grouped =
      work.options.grouped_rows && only_grouped_products_read(work.facts, view.source);
  if (!work.options.rows && !grouped) return std::nullopt;
  const ir::Shape& shape = work.graph().type(view.source).shape;
  if (work.graph().type(a).shape != shape || work.graph().type(matmul).shape.size() != 2 ||
      !is_dense(work.facts, view.source, view.access))
    return std::nullopt;
  return rows_of(work.facts, view.source);
}

std::optional<GatheredRows> gathered_operand(const Workspace& work, const Draft& draft,
                                             Value operand, const Frame* frame) {
  const bool products = draft.kind == RegionKind::Gemm || draft.kind == RegionKind::GatedGemm;
  if (!work.options.indexed_operands || !products || draft.frames.domain().size() != 2)
    return std::nullopt;
  const View& view = work.facts.views[operand.id];
  auto found = rows_of(work.facts, view.source);
  if (!found) return std::nullopt;
  const auto access = draft.frames.to_domain(frame, operand, view.access);
  if (!access) return std::nullopt;
  const ir::Shape& domain = draft.frames.domain();
  const ir::Shape& shape = work.graph().type(view.source).shape;
  const std::vector<Dim> dense = dense_strides(shape);
  const bool each_row = domain[0] == shape[0] && access->strides[0] == dense[0];
  if (!each_row || !is_in_row(access->offset, access->strides[1], domain[1], shape[1]))
    return std::nullopt;
  const Dim column = found->access.strides[1];
  found->access.offset = found->access.offset + access->offset * column;
  found->access.strides[1] = access->strides[1] * column;
  return found;
}

std::optional<RowsOfGroups> operand_of_groups(const Workspace& work, const Draft& draft,
                                              Value operand, const Frame* frame) {
  const auto found = gathered_operand(work, draft, operand, frame);
  if (!found) return std::nullopt;
  const ir::Node& ids = work.graph()[found->rows.source];
  if (ids.op != Op::GroupIds || !(ids.type.shape[0] == draft.frames.domain()[0]) ||
      !is_dense(work.facts, found->rows.source, found->rows.access))
    return std::nullopt;
  const View& ends = work.facts.views[ids.operands[0].id];
  const Dim groups = work.graph().type(ids.operands[0]).shape[0];
  const bool same = std::all_of(draft.gemms.begin(), draft.gemms.end(), [&](Value gemm) {
    const ir::Node& product = work.graph()[gemm];
    if (product.op != Op::GroupedMatMul) return false;
    const View& own = work.facts.views[product.operands[2].id];
    return own.source == ends.source && own.access == ends.access &&
           work.graph().type(product.operands[2]).shape[0] == groups;
  });
  if (!same || !(found->rows.extent == groups)) return std::nullopt;
  return RowsOfGroups{found->source, found->access};
}

std::optional<Value> coded_weights(const Workspace& work, Value matmul) {
  const Op op = work.graph()[matmul].op;
  const bool wanted = work.options.codes || (work.options.grouped_codes && op == Op::GroupedMatMul);
  if (!wanted || !is_product(op)) return std::nullopt;
  const Value b = work.graph()[matmul].operands[1];
  const View& view = work.facts.views[b.id];
  const ir::Node& node = work.graph()[view.source];
  const bool decodes = node.op == Op::MxFp4 || node.op == Op::Decode;
  if (!decodes || !view.access.offset.is(0)) return std::nullopt;
  const ir::Shape &shape = work.graph().type(b).shape, &own = node.type.shape;
  if (shape.size() != own.size()) return std::nullopt;
  for (const Value operand : node.operands) {
    if (!is_dense(work.facts, operand, work.facts.views[operand.id].access)) return std::nullopt;
  }
  const bool grouped = op == Op::GroupedMatMul && own.size() == 3 && shape[0] == own[0] &&
                       view.access.strides[0] == dense_strides(own)[0];
  return grouped || own.size() == 2 ? std::optional(view.source) : std::nullopt;
}

}  // namespace attacca::fuse
