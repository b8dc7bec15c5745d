#include "fuse/workspace.hpp"

#include <algorithm>

#include "support/check.hpp"

namespace attacca::fuse {

using ir::Op;

void Feeds::add(uint32_t id) {
  if (id == first || id == second) return;
  if (first == kNone)
    first = id;
  else if (second == kNone)
    second = id;
  else
    more = true;
}

void Feeds::add(const Feeds& other) {
  if (other.first != kNone) add(other.first);
  if (other.second != kNone) add(other.second);
  more |= other.more;
}

Facts::Facts(const ir::Graph& graph)
    : graph(graph),
      live(ir::live(graph)),
      users(ir::users(graph)),
      is_output(graph.size(), false),
      views(resolve_views(graph)),
      feeds(graph.size()) {
  for (auto& list : users)
    list.erase(std::remove_if(list.begin(), list.end(), [&](auto user) { return !live[user.id]; }),
               list.end());
  for (const ir::Output& output : graph.outputs()) is_output[output.value.id] = true;
  count.reserve(graph.size());
  for (uint32_t id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.nodes()[id];
    count.push_back(ir::element_count(node.type.shape));
    if (is_product(node.op))
      feeds[id].add(id);
    else if (is_pointwise(node.op) || is_view_op(node.op))
      for (const ir::Value operand : node.operands) feeds[id].add(feeds[operand.id]);
  }
}

bool Facts::correspond(ir::Value a, ir::Value b) const {
  if (!(count[a.id] == count[b.id])) return false;
  // If there are no elements, equal counts do not mean equal axes.
  return !count[a.id].is(0) || graph.type(a).shape == graph.type(b).shape;
}

bool Facts::is_dense(ir::Value value, const Access& access) const {
  return access.offset.is(0) && access.strides == dense_strides(graph.type(value).shape);
}

bool is_pointwise(Op op) {
  return ir::is_elementwise(op) || op == Op::Cast || op == Op::Reshape || op == Op::Broadcast;
}

bool is_product(Op op) {
  return op == Op::MatMul || op == Op::GroupedMatMul;
}

bool starts_region(Op op) {
  return is_product(op) || op == Op::Kernel;
}

namespace {

// The axis of the operand that each axis of a transpose or permute is.
std::vector<int64_t> axes_of(const ir::Node& view) {
  if (view.op == Op::Permute) return view.get<ir::PermuteAttrs>().axes;
  std::vector<int64_t> axes(view.type.shape.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return axes;
}

bool moves(Op op) {
  return op == Op::Transpose || op == Op::Permute;
}

// Whether two views of these kinds put each element of an operand at the same place.
bool same_view(const ir::Graph& graph, ir::Value a, ir::Value b) {
  const ir::Node &x = graph[a], &y = graph[b];
  if (moves(x.op) != moves(y.op) || x.type.shape != y.type.shape ||
      graph.type(x.operands[0]).shape != graph.type(y.operands[0]).shape)
    return false;
  return !moves(x.op) || axes_of(x) == axes_of(y);
}

// Whether `view` puts the elements back to where they were before `undone`.
bool undoes(const ir::Graph& graph, ir::Value view, ir::Value undone) {
  const ir::Node &x = graph[view], &y = graph[undone];
  if (moves(x.op) != moves(y.op) || x.type.shape != graph.type(y.operands[0]).shape ||
      graph.type(x.operands[0]).shape != y.type.shape)
    return false;
  if (!moves(x.op)) return true;
  const std::vector<int64_t> second = axes_of(x), first = axes_of(y);
  for (size_t i = 0; i < second.size(); ++i)
    if (first[second[i]] != static_cast<int64_t>(i)) return false;
  return true;
}

// Strides over a view's axes as strides over its operand's.
std::optional<std::vector<ir::Dim>> before_view(const ir::Graph& graph, ir::Value view,
                                                const std::vector<ir::Dim>& strides) {
  const ir::Node& node = graph[view];
  if (!moves(node.op)) return regroup(node.type.shape, strides, graph.type(node.operands[0]).shape);
  std::vector<ir::Dim> result(strides.size());
  const std::vector<int64_t> axes = axes_of(node);
  for (size_t i = 0; i < axes.size(); ++i) result[axes[i]] = strides[i];
  return result;
}

}  // namespace

const Frame* Frames::behind(const Frame* frame, ir::Value view) {
  const ir::Graph& graph = facts_->graph;
  if (frame && frame->behind && undoes(graph, view, frame->through)) return frame->up;
  for (const Frame& known : behind_)
    if (known.up == frame && same_view(graph, known.through, view)) return &known;
  return &behind_.emplace_back(Frame{.up = frame, .through = view, .behind = true});
}

const Frame* Frames::read(const Frame* frame, ir::Value user, ir::Value operand) {
  const ir::Node& node = facts_->graph[user];
  const bool returns = moves(node.op) || node.op == Op::Reshape;
  if (frame != root() && frame->behind && returns && same_view(facts_->graph, frame->through, user))
    return frame->up;
  if (returns)
    for (const Frame& known : behind_)
      if (known.up == frame && undoes(facts_->graph, user, known.through)) return &known;
  const bool same_place = is_pointwise(node.op);
  if (same_place && frame == root() && facts_->correspond(user, operand)) return root();
  if (same_place && node.type.shape == facts_->graph.type(operand).shape) return frame;
  return &interned_.try_emplace({frame, user.id}, Frame{.up = frame, .through = user})
              .first->second;
}

std::optional<Access> Frames::to_domain(const Frame* frame, ir::Value value, Access access) const {
  const ir::Graph& graph = facts_->graph;
  for (; frame != root(); frame = frame->up) {
    if (frame->behind) {
      auto strides = before_view(graph, frame->through, access.strides);
      if (!strides) return std::nullopt;
      access.strides = *std::move(strides);
    } else if (is_view_op(graph[frame->through].op)) {
      auto viewed = apply_view(graph, frame->through, access);
      if (!viewed) return std::nullopt;
      access = *std::move(viewed);
    } else {
      access.strides = broadcast_strides(graph.type(value).shape, access.strides,
                                         graph.type(frame->through).shape);
    }
    value = frame->behind ? graph[frame->through].operands[0] : frame->through;
  }
  auto strides = regroup(graph.type(value).shape, access.strides, domain_);
  if (!strides) return std::nullopt;
  access.strides = *std::move(strides);
  return access;
}

Draft Workspace::start(RegionKind kind, ir::Value root, ir::Shape domain) {
  while (domain.size() < 2) domain.insert(domain.begin(), ir::Dim(1));
  const ir::Dim count = ir::element_count(domain);
  Draft draft{.id = next_id++,
              .kind = kind,
              .gemms = {},
              .frames = Frames(facts, std::move(domain)),
              .count = count,
              .members = {{root, schedule.mark()}},
              .fixed = 1,
              .reduced = {}};
  if (starts_region(graph()[root].op)) draft.gemms.push_back(root);
  owner[root.id] = draft.id;
  return draft;
}

bool Workspace::join(Draft& draft, ir::Value node) {
  const size_t mark = schedule.mark();
  if (!schedule.join(schedule.group_of(draft.root()), schedule.group_of(node))) return false;
  draft.members.push_back({node, mark});
  owner[node.id] = draft.id;
  return true;
}

void Workspace::drop(Draft& draft, size_t keep) {
  while (draft.members.size() > keep) {
    const Draft::Member member = draft.members.back();
    draft.members.pop_back();
    owner[member.node.id] = kFree;
    draft.reduced.erase(member.node.id);
    draft.seen_in.erase(member.node.id);
    schedule.rollback(member.mark);
  }
}

void Workspace::commit(Draft draft) {
  refusals.insert(refusals.end(), draft.refusals.begin(), draft.refusals.end());
  draft.refusals.clear();
  drafts.push_back(std::move(draft));
}

}  // namespace attacca::fuse
