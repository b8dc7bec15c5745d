#include "fuse/gates.hpp"

#include <algorithm>
#include <functional>
#include <queue>

#include "fuse/grow.hpp"
#include "fuse/obstacles.hpp"
#include "fuse/operands.hpp"

namespace attacca::fuse {

using ir::Dim;
using ir::Op;
using ir::Shape;
using ir::Value;

bool reads_same_a(const Facts& facts, Value first, Value second) {
  const Value a = facts.graph[first].operands[0], b = facts.graph[second].operands[0];
  return facts.views[a.id].source == facts.views[b.id].source &&
         facts.graph.type(a).shape == facts.graph.type(b).shape &&
         facts.views[a.id].access == facts.views[b.id].access;
}

namespace {

// Whether both are plain products, or both grouped ones of the same groups.
bool same_groups(const Facts& facts, Value first, Value second) {
  const ir::Node &one = facts.graph[first], &other = facts.graph[second];
  if (one.op != other.op || one.op != Op::GroupedMatMul) return one.op == other.op;
  const View &ends = facts.views[one.operands[2].id], &others = facts.views[other.operands[2].id];
  return ends.source == others.source && ends.access == others.access &&
         facts.graph.type(one.operands[2]).shape == facts.graph.type(other.operands[2]).shape;
}

// Whether an operand of the second product is the first one, which must then be in memory.
bool reads(const Facts& facts, Value second, Value first) {
  const std::vector<Value>& operands = facts.graph[second].operands;
  return std::any_of(operands.begin(), operands.end(),
                     [&](Value operand) { return facts.views[operand.id].source == first; });
}

bool can_pair(const Facts& facts, uint32_t first, uint32_t second) {
  return facts.live[first] && facts.live[second] && !reads(facts, Value{second}, Value{first}) &&
         facts.graph.type(Value{first}) == facts.graph.type(Value{second}) &&
         reads_same_a(facts, Value{first}, Value{second}) &&
         same_groups(facts, Value{first}, Value{second}) &&
         gemm_obstacle(facts.graph, Value{first}).empty() &&
         gemm_obstacle(facts.graph, Value{second}).empty();
}

void give_up(Workspace& work, Draft& draft) {
  work.drop(draft, 0);
}

}  // namespace

std::map<uint32_t, GatePair> find_gate_pairs(const Facts& facts) {
  std::map<uint32_t, GatePair> pairs;
  for (uint32_t id = 0; id < facts.graph.size(); ++id) {
    const ir::Node& node = facts.graph.nodes()[id];
    const Feeds& feeds = facts.feeds[id];
    if (!facts.live[id] || !ir::is_elementwise(node.op) || feeds.more ||
        feeds.second == Feeds::kNone)
      continue;
    const uint32_t first = std::min(feeds.first, feeds.second);
    const uint32_t second = std::max(feeds.first, feeds.second);
    const bool meets = std::all_of(node.operands.begin(), node.operands.end(), [&](Value operand) {
      return facts.feeds[operand.id].second == Feeds::kNone;
    });
    if (!meets || pairs.count(first) || pairs.count(second) || !can_pair(facts, first, second))
      continue;
    pairs[first] = pairs[second] = {Value{first}, Value{second}, Value{id}};
  }
  return pairs;
}

std::optional<Draft> draft_pair(Workspace& work, const GatePair& pair) {
  if (work.owner[pair.first.id] != Workspace::kFree ||
      work.owner[pair.second.id] != Workspace::kFree)
    return std::nullopt;
  const auto place = [&](Value node) {
    return work.schedule.position(work.schedule.group_of(node));
  };
  const bool in_order = place(pair.first) < place(pair.second);
  Draft draft = work.start(RegionKind::GatedGemm, in_order ? pair.first : pair.second,
                           work.graph().type(pair.first).shape);
  draft.gemms = {pair.first, pair.second};
  if (work.join(draft, in_order ? pair.second : pair.first)) {
    draft.fixed = 2;
    grow(work, draft);
    if (work.owns(draft, pair.meet)) return draft;
  }
  give_up(work, draft);
  return std::nullopt;
}

namespace {

// Finds the nodes between a product and the two column sets into which it is split: wide nodes,
// with all columns, and lanes, the views of half of them.
class Halves {
 public:
  Halves(Workspace& work, Value matmul)
      : work_(work), facts_(work.facts), graph_(work.graph()), matmul_(matmul) {}

  std::optional<Draft> run() {
    const Shape& shape = graph_.type(matmul_).shape;
    const auto half = divide(shape.back(), Dim(2));
    if (!half || facts_.is_output[matmul_.id]) return std::nullopt;
    narrow_ = shape;
    narrow_.back() = *half;
    narrow_count_ = ir::element_count(narrow_);
    in_blocks_ = scaled_operands(work_, matmul_).has_value();
    // Each half has scales of its own.
    if (in_blocks_ && !divide(*half, Dim(kScaleBlock))) return std::nullopt;
    // With an extent of 0, all counts would be equal.
    if (narrow_count_.is(0) || !find() || !complete() || !in_place()) return std::nullopt;
    Draft draft = work_.start(RegionKind::GatedGemm, matmul_, narrow_);
    if (join_prefix(draft)) {
      grow(work_, draft);
      if (closed(draft)) return draft;
    }
    give_up(work_, draft);
    return std::nullopt;
  }

 private:
  // Whether the node has all columns in the product's order, so that ops after it can be computed
  // in place.
  enum class Kind : uint8_t { Flat, Rearranged, Lane };

  bool find() {
    std::priority_queue<Value, std::vector<Value>, std::greater<>> open;
    kinds_[matmul_.id] = Kind::Flat;
    open.push(matmul_);
    while (!open.empty()) {
      const Value node = open.top();
      open.pop();
      for (const Value user : facts_.users[node.id]) {
        if (kinds_.count(user.id)) continue;
        const auto kind = classify(node, user);
        if (!kind || (*kind != Kind::Lane && facts_.is_output[user.id])) return false;
        kinds_[user.id] = *kind;
        if (*kind != Kind::Lane) open.push(user);
      }
    }
    return true;
  }

  std::optional<Kind> classify(Value node, Value user) {
    if (work_.owner[user.id] != Workspace::kFree) return std::nullopt;
    const Op op = graph_[user].op;
    const bool flat = kinds_[node.id] == Kind::Flat;
    const bool wide = facts_.count[user.id] == facts_.count[matmul_.id];
    if (is_view_op(op)) {
      if (facts_.views[user.id].source == user) return std::nullopt;  // needs a copy
      if (note_lane(user)) return Kind::Lane;
      return flat && wide && is_pointwise(op) ? Kind::Flat : Kind::Rearranged;
    }
    const bool follows = flat && wide && is_pointwise(op) && dtype_obstacle(graph_, user).empty();
    return follows ? std::optional(Kind::Flat) : std::nullopt;
  }

  // Records which half of the columns a view takes, if it takes a half.
  bool note_lane(Value view) {
    if (!(facts_.count[view.id] == narrow_count_)) return false;
    const Access& access = facts_.views[view.id].access;
    auto strides = regroup(graph_.type(view).shape, access.strides, narrow_);
    if (!strides) return false;
    const Dim half = narrow_.back();
    std::vector<Dim> expected = dense_strides(graph_.type(matmul_).shape);
    const auto takes = [&](int64_t step) {
      expected.back() = half.is(1) ? 0 : step;
      return *strides == expected;
    };
    const bool packed = takes(1), interleaved = takes(2);
    if (packed && (access.offset.is(0) || access.offset == half)) {
      (access.offset.is(0) ? low_ : high_) = true;
      return true;
    }
    if (interleaved && (access.offset.is(0) || access.offset.is(1))) {
      (access.offset.is(0) ? even_ : odd_) = true;
      return true;
    }
    return false;
  }

  bool complete() const {
    return (low_ && high_ && !even_ && !odd_) || (even_ && odd_ && !low_ && !high_ && !in_blocks_);
  }

  // Every op before the split reads the product's columns in their own order.
  bool in_place() const {
    for (const auto& [id, kind] : kinds_) {
      const ir::Node& node = graph_.nodes()[id];
      if (is_product(node.op) || is_view_op(node.op)) continue;
      for (const Value operand : node.operands)
        if (const auto found = kinds_.find(operand.id);
            found != kinds_.end() && found->second != Kind::Flat)
          return false;
    }
    return true;
  }

  bool join_prefix(Draft& draft) {
    for (const auto& [id, kind] : kinds_)
      if (id != matmul_.id && !work_.join(draft, Value{id})) return false;
    draft.fixed = draft.members.size();
    // Readers come first, so that each wide node is visited once for each lane.
    for (auto entry = kinds_.rbegin(); entry != kinds_.rend(); ++entry)
      if (entry->second != Kind::Lane && !see(draft, Value{entry->first})) return false;
    return true;
  }

  bool see(Draft& draft, Value node) {
    std::vector<const Frame*> frames;
    for (const Value user : facts_.users[node.id])
      for (const Frame* frame : draft.frames_of(user)) {
        const Frame* seen = draft.frames.read(frame, user, node);
        if (std::find(frames.begin(), frames.end(), seen) == frames.end()) frames.push_back(seen);
      }
    constexpr size_t kMaxFrames = 8;  // repeated slices of a half
    if (frames.size() > kMaxFrames) return false;
    draft.seen_in[node.id] = frames;
    if (is_product(graph_[node].op)) return true;
    for (const Frame* frame : frames)
      for (const Value operand : graph_[node].operands)
        if (!reachable(draft, frame, node, operand)) return false;
    return true;
  }

  bool reachable(Draft& draft, const Frame* frame, Value node, Value operand) {
    if (work_.owns(draft, operand) || graph_[operand].literal) return true;
    const View& view = facts_.views[operand.id];
    if (work_.owns(draft, view.source)) return false;
    const Frame* seen = draft.frames.read(frame, node, operand);
    return draft.frames.to_domain(seen, operand, view.access).has_value();
  }

  // No node outside reads the wide nodes.
  bool closed(const Draft& draft) const {
    for (const Draft::Member& member : draft.members) {
      const Value node = member.node;
      const bool of_wide = kinds_.count(facts_.views[node.id].source.id) != 0;
      if (!of_wide || (kinds_.count(node.id) == 0 && !is_view_op(graph_[node].op))) continue;
      for (const Value user : facts_.users[node.id])
        if (!work_.owns(draft, user)) return false;
    }
    return true;
  }

  Workspace& work_;
  const Facts& facts_;
  const ir::Graph& graph_;
  Value matmul_;
  Shape narrow_;
  Dim narrow_count_;
  std::map<uint32_t, Kind> kinds_;
  bool low_ = false, high_ = false, even_ = false, odd_ = false;
  bool in_blocks_ = false;  // the product's operands have scales of blocks
};

}  // namespace

std::optional<Draft> draft_halves(Workspace& work, Value matmul) {
  return Halves(work, matmul).run();
}

}  // namespace attacca::fuse
