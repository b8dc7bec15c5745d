#include "fuse/gathers.hpp"

#include <algorithm>

namespace attacca::fuse {
namespace {

using ir::Dim;
using ir::Op;
using ir::Value;

// Whether `count` columns from `first` on, `step` apart, lie in a row of `width`.
bool is_in_row(const Dim& first, const Dim& step, const Dim& count, const Dim& width) {
  if (first.is(0) && (step.is(0) || (step.is(1) && count == width))) return true;
  const auto at = first.maybe_value(), by = step.maybe_value(), of = count.maybe_value(),
             whole = width.maybe_value();
  if (!at || !by || !of || !whole || *at < 0 || *by < 0) return false;
  return *of <= 0 || *at + (*of - 1) * *by < *whole;
}

}  // namespace

std::optional<GatheredRows> gathered_rows(const Facts& facts, Value value) {
  const ir::Node& node = facts.graph[value];
  if (node.op != Op::Gather || node.get<ir::AxisAttrs>().axis != 0) return std::nullopt;
  const ir::Type &from = facts.graph.type(node.operands[0]),
                 &index = facts.graph.type(node.operands[1]);
  if (from.shape.size() != 2 || index.shape.size() != 1) return std::nullopt;
  for (const Value operand : node.operands)
    if (facts.graph[facts.views[operand.id].source].literal) return std::nullopt;
  const View &x = facts.views[node.operands[0].id], &at = facts.views[node.operands[1].id];
  return GatheredRows{x.source, x.access, {at.source, at.access, from.shape[0], index.dtype}};
}

std::optional<GatheredRows> gathered_operand(const Workspace& work, const Draft& draft,
                                             Value operand, const Frame* frame) {
  const bool products = draft.kind == RegionKind::Gemm || draft.kind == RegionKind::GatedGemm;
  if (!work.options.indexed_operands || !products || draft.frames.domain().size() != 2)
    return std::nullopt;
  const View& view = work.facts.views[operand.id];
  auto found = gathered_rows(work.facts, view.source);
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
      !work.facts.is_dense(found->rows.source, found->rows.access))
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

}  // namespace attacca::fuse
