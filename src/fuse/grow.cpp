#include "fuse/grow.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "fmt/format.h"

#include "fuse/obstacles.hpp"

namespace attacca::fuse {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;

constexpr size_t kMaxOutputs = 4;
// Ops over fewer elements are computed again for every element to which they are broadcast, so only
// cheap ones join.
constexpr int kMaxRepeatedCost = 4;

class Growth {
 public:
  Growth(Workspace& work, Draft& draft)
      : work_(work), facts_(work.facts), graph_(work.graph()), draft_(draft) {}

  void run() {
    for (const Draft::Member& member : draft_.members) push_users(member.node);
    while (!candidates_.empty()) {
      const Value node = candidates_.top();
      candidates_.pop();
      if (work_.owns(draft_, node)) continue;
      std::string reason = escaping_.size() > kMaxOutputs ? too_many_outputs() : try_join(node);
      if (reason.empty()) {
        if (facts_.is_output[node.id] || draft_.reduced.count(node.id)) escaping_.insert(node.id);
        push_users(node);
        continue;
      }
      for (const Value operand : graph_[node].operands)
        if (work_.owns(draft_, operand)) escaping_.insert(operand.id);
      refuse(node, std::move(reason));
    }
    limit_outputs();
    pull_operands();
  }

 private:
  std::string label(Value value) const { return display_name(graph_, value); }
  bool is_kernel() const { return draft_.kind == RegionKind::UserKernel; }

  void refuse(Value node, std::string reason) {
    draft_.refusals.push_back({node, draft_.root(), std::move(reason)});
  }

  static std::string too_many_outputs() {
    return fmt::format("the region would have more than {} outputs", kMaxOutputs);
  }

  void push_users(Value node) {
    for (const Value user : facts_.users[node.id])
      if (seen_.insert(user.id).second) candidates_.push(user);
  }

  // Why the node did not join; empty if it joined.
  std::string try_join(Value node) {
    if (starts_region(graph_[node].op)) return structural_reason(graph_, node);
    if (work_.owner[node.id] != Workspace::kFree)
      return fmt::format("{} already belongs to another region", label(node));
    const Op op = graph_[node].op;
    const bool adds = op == Op::ScatterAdd && work_.options.rows;
    const Frame* frame = draft_.frames.root();
    std::string reason = ir::is_reduction(op) ? reduction_obstacle(node)
                         : adds               ? adding_obstacle(node)
                                              : pointwise_obstacle(node, frame);
    if (!reason.empty()) return reason;
    if (!work_.join(draft_, node)) return cycle_reason(node);
    if (frame) draft_.seen_in[node.id] = {frame};
    if (ir::is_reduction(op) || adds) draft_.reduced.insert(node.id);
    return {};
  }

  // Why a scatter_add, whose updates are the region's rows, cannot join; empty if it can.
  std::string adding_obstacle(Value node) const {
    const ir::Node& n = graph_[node];
    const Value updates = n.operands[2];
    if (draft_.kind == RegionKind::Pointwise || is_kernel()) return structural_reason(graph_, node);
    if (draft_.reduced.count(updates.id))
      return fmt::format("{} needs the whole of {}", label(node), label(updates));
    for (const Value operand : {n.operands[0], n.operands[1]})
      if (work_.owns(draft_, facts_.views[operand.id].source))
        return fmt::format("{} needs the whole of {} before its first row", label(node),
                           label(operand));
    if (draft_.behind(updates))
      return fmt::format("it adds {}, whose rows the region does not compute one by one",
                         label(updates));
    if (!(graph_.type(updates).shape == draft_.frames.domain()) || n.type.shape.size() != 2)
      return fmt::format("it adds {}, which is not of the region's shape {}", label(updates),
                         to_string(draft_.frames.domain()));
    if (!ir::is_float(n.type.dtype) || n.type.dtype == DType::F64)
      return fmt::format("rows of {} are added op by op", name(n.type.dtype));
    return {};
  }

  // Why a node that computes each element from one of each operand, or moves elements, cannot join;
  // empty if it can. `frame` is set to the one in which the node is seen.
  std::string pointwise_obstacle(Value node, const Frame*& frame) const {
    const ir::Node& n = graph_[node];
    const bool moves = work_.options.transposes && !is_kernel() && moves_elements(n.op);
    if (!is_pointwise(n.op) && !moves)
      return is_kernel() && is_view_op(n.op) ? other_places(node) : structural_reason(graph_, node);
    for (const Value operand : n.operands)
      if (draft_.reduced.count(operand.id))
        return fmt::format("{} needs the whole of {} before its first element", label(node),
                           label(operand));
    const bool empty = draft_.count.is(0);
    if (empty ? !facts_.correspond(node, draft_.root()) : !(facts_.count[node.id] == draft_.count))
      return size_reason(node);
    if (std::string reason = dtype_obstacle(graph_, node); !reason.empty()) return reason;
    frame = frame_of(node);
    for (const Value operand : n.operands)
      if (std::string reason = operand_obstacle(node, frame, operand); !reason.empty())
        return reason;
    if (!frame) return {};
    const Access dense{0, dense_strides(n.type.shape)};
    return draft_.frames.to_domain(frame, node, dense) ? "" : unreachable(node, "result");
  }

  static bool moves_elements(Op op) { return op == Op::Transpose || op == Op::Permute; }

  // The frame in which a node that reads members is seen.
  const Frame* frame_of(Value node) const {
    const ir::Node& n = graph_[node];
    const auto member = std::find_if(n.operands.begin(), n.operands.end(),
                                     [&](Value each) { return work_.owns(draft_, each); });
    if (member == n.operands.end()) return nullptr;
    const Frame* frame = draft_.behind(*member);
    const bool reshapes = n.op == Op::Reshape && frame;
    if (moves_elements(n.op) || reshapes) return draft_.frames.behind(frame, node);
    return frame;
  }

  std::string unreachable(Value value, std::string_view what) const {
    return fmt::format("no strides over {} reach the elements of its {} {}{}",
                       to_string(draft_.frames.domain()), what, label(value),
                       to_string(graph_.type(value).shape));
  }

  std::string other_places(Value view) const {
    return fmt::format("{} reads {} at other places than its kernel writes", name(graph_[view].op),
                       label(draft_.root()));
  }

  std::string size_reason(Value node) const {
    const std::string result = to_string(graph_.type(node).shape);
    const std::string domain = to_string(draft_.frames.domain());
    if (graph_[node].op == Op::Broadcast || ir::is_elementwise(graph_[node].op))
      return fmt::format("its result {} repeats the elements of {}: they would be recomputed",
                         result, domain);
    return fmt::format("its result {} has other elements than {}", result, domain);
  }

  // Why an operand cannot be read along with the node; empty if it can.
  std::string operand_obstacle(Value node, const Frame* frame, Value operand) const {
    if (graph_[operand].literal) return {};
    Frames& frames = draft_.frames;
    const Frame* seen = frames.read(frame, node, operand);
    const View& view = facts_.views[operand.id];
    const auto elsewhere = [&] {
      return fmt::format("it reads {} at other places too, through {}", label(view.source),
                         label(operand));
    };
    if (work_.owns(draft_, operand)) {
      const std::vector<const Frame*> known = draft_.frames_of(operand);
      const bool moved = frame || draft_.behind(operand);
      const bool met = std::find(known.begin(), known.end(), seen) != known.end();
      return moved && !met ? elsewhere() : "";
    }
    if (work_.owns(draft_, view.source)) return elsewhere();
    return frames.to_domain(seen, operand, view.access) ? "" : unreachable(operand, "operand");
  }

  // Why a reduction cannot join; empty if it can.
  std::string reduction_obstacle(Value node) const {
    const ir::Node& n = graph_[node];
    if (work_.options.reductions == Reductions::None ||
        (work_.options.reductions == Reductions::Amax && !is_amax_of_matrix(n)))
      return "the device has no kernel that reduces in a region";
    const Value operand = n.operands[0];
    if (draft_.kind == RegionKind::Pointwise || is_kernel()) return structural_reason(graph_, node);
    if (draft_.reduced.count(operand.id))
      return fmt::format("{} needs the whole of {}", label(node), label(operand));
    if (std::string reason = dtype_obstacle(graph_, node); !reason.empty()) return reason;
    if (draft_.behind(operand))
      return fmt::format("it reduces {}, whose elements are at other places than the region's",
                         label(operand));
    if (!(graph_.type(operand).shape == draft_.frames.domain()))
      return fmt::format("it reduces {}, which is not of the region's shape {}", label(operand),
                         to_string(draft_.frames.domain()));
    const size_t rank = draft_.frames.domain().size(),
                 reduced = n.get<ir::ReductionAttrs>().axes.size();
    const bool last = n.get<ir::ReductionAttrs>().axes.back() == static_cast<int64_t>(rank) - 1;
    const bool rows = last && reduced == 1, all = reduced == rank;
    const bool columns =
        !last && n.get<ir::ReductionAttrs>().axes.back() == static_cast<int64_t>(rank) - 2 &&
        (reduced == 1 || reduced == rank - 1);
    const bool batch = n.get<ir::ReductionAttrs>().axes.back() < static_cast<int64_t>(rank) - 2;
    if (!rows && !columns && !all && !batch)
      return "it reduces axes that are neither rows, columns nor whole matrices of a batch";
    return {};
  }

  // Whether it is the first amax of the region, over a whole matrix.
  bool is_amax_of_matrix(const ir::Node& node) const {
    return node.op == Op::AMax && node.type.dtype == ir::DType::F32 &&
           draft_.frames.domain().size() == 2 && node.get<ir::ReductionAttrs>().axes.size() == 2 &&
           draft_.reduced.empty();
  }

  std::string cycle_reason(Value node) const {
    for (const Value operand : graph_[node].operands)
      if (work_.schedule.scheduled(operand) &&
          work_.schedule.group_of(operand) == work_.schedule.blocker())
        return fmt::format("its operand {} depends on this region's own result", label(operand));
    return "an operand depends on this region's own result";
  }

  // The join index of every member's last user; SIZE_MAX for a member that must reach memory.
  std::vector<size_t> last_reads() const {
    std::unordered_map<uint32_t, size_t> index;
    for (size_t i = 0; i < draft_.members.size(); ++i) index[draft_.members[i].node.id] = i;
    std::vector<size_t> last(draft_.members.size(), 0);
    for (size_t i = 0; i < last.size(); ++i) {
      const Value node = draft_.members[i].node;
      if (facts_.is_output[node.id] || draft_.reduced.count(node.id)) last[i] = SIZE_MAX;
      for (const Value user : facts_.users[node.id]) {
        const auto found = index.find(user.id);
        last[i] = std::max(last[i], found == index.end() ? SIZE_MAX : found->second);
      }
    }
    return last;
  }

  // Shortens the region to the longest prefix whose outputs fit.
  void limit_outputs() {
    const std::vector<size_t> last = last_reads();
    // escaping[k]: members of the prefix of k that something outside of it reads.
    std::vector<int64_t> escaping(last.size() + 2, 0);
    for (size_t i = 0; i < last.size(); ++i) {
      ++escaping[i + 1];
      if (last[i] < last.size()) --escaping[last[i] + 1];
    }
    for (size_t k = 1; k <= last.size(); ++k) escaping[k] += escaping[k - 1];
    size_t keep = last.size();
    if (is_kernel()) {
      while (keep > 1 && !kernel_obstacle(last, keep).empty()) --keep;
      for (size_t i = keep; i < last.size(); ++i)
        refuse(draft_.members[i].node, kernel_obstacle(last, i + 1));
    } else {
      while (keep > draft_.fixed && escaping[keep] > static_cast<int64_t>(kMaxOutputs)) --keep;
      for (size_t i = keep; i < last.size(); ++i)
        refuse(draft_.members[i].node, too_many_outputs());
    }
    work_.drop(draft_, keep);
  }

  // Why a user's kernel cannot store the result of the first `count` members; empty if it can. A
  // kernel stores one value for each element, the last member's, in place of its own.
  std::string kernel_obstacle(const std::vector<size_t>& last, size_t count) const {
    const Value root = draft_.root(), result = draft_.members[count - 1].node;
    for (size_t i = 0; i + 1 < count; ++i) {
      if (last[i] < count) continue;
      const Value needed = draft_.members[i].node;
      if (needed == root)
        return fmt::format("{} is read by other ops, too: its values must reach memory",
                           label(root));
      return is_view_op(graph_[needed].op)
                 ? fmt::format("{} is the memory of {}, which is needed besides {}", label(needed),
                               label(root), label(result))
                 : fmt::format("the kernel stores one result, and {} is needed besides {}",
                               label(needed), label(result));
    }
    const DType stored = graph_.type(root).dtype, wanted = graph_.type(result).dtype;
    if (ir::size_of(stored) != ir::size_of(wanted))
      return fmt::format("the kernel stores {}, and {} is {}: elements of another size",
                         name(stored), label(result), name(wanted));
    return {};
  }

  // Operands that only this region reads join it: casts of a bias, products of scales, ...
  void pull_operands() {
    for (size_t i = draft_.members.size(); i-- > 0;) pull_into(draft_.members[i].node);
    for (size_t i = pulled_from_; i < draft_.members.size() && pulled_from_; ++i)
      pull_into(draft_.members[i].node);
  }

  void pull_into(Value reader) {
    if (draft_.reduced.count(reader.id) || starts_region(graph_[reader].op)) return;
    for (const Value operand : graph_[reader].operands) pull(operand);
  }

  void pull(Value operand) {
    if (!work_.schedule.scheduled(operand) || work_.owner[operand.id] != Workspace::kFree) return;
    // The views between the reader and the op, outermost first.
    std::vector<Value> path = {operand};
    while (is_view_op(graph_[path.back()].op)) {
      path.push_back(graph_[path.back()].operands[0]);
      if (!work_.schedule.scheduled(path.back())) return;
    }
    const size_t start = draft_.members.size();
    for (const Value node : path)
      if (!pull_one(node)) {
        work_.drop(draft_, start);
        return;
      }
    if (!pulled_from_) pulled_from_ = start;
  }

  bool pull_one(Value node) {
    const ir::Node& n = graph_[node];
    if (work_.owner[node.id] != Workspace::kFree || facts_.is_output[node.id]) return false;
    if (draft_.kind != RegionKind::Pointwise && facts_.feeds[node.id].any())
      return false;  // it may join the region of that product; those grow before pointwise ones
    if (!is_view_op(n.op) && (!is_pointwise(n.op) || !cheap_enough(node))) return false;
    if (!dtype_obstacle(graph_, node).empty()) return false;
    for (const Value user : facts_.users[node.id])
      if (!work_.owns(draft_, user) || starts_region(graph_[user].op)) return false;
    for (const Value operand : n.operands)
      if (work_.owns(draft_, facts_.views[operand.id].source)) return false;
    std::vector<const Frame*> frames;
    if (!frames_for(node, frames)) return false;
    if (!work_.join(draft_, node)) return false;
    draft_.seen_in[node.id] = std::move(frames);
    return true;
  }

  bool cheap_enough(Value node) const {
    return facts_.count[node.id] == draft_.count || graph_[node].op == Op::Cast ||
           ir::info(graph_[node].op).cost <= kMaxRepeatedCost;
  }

  // The frames in which its readers see the node; false where its operands cannot be reached.
  bool frames_for(Value node, std::vector<const Frame*>& frames) {
    for (const Value user : facts_.users[node.id])
      for (const Frame* frame : draft_.frames_of(user)) {
        const Frame* seen = draft_.frames.read(frame, user, node);
        if (std::find(frames.begin(), frames.end(), seen) == frames.end()) frames.push_back(seen);
      }
    if (frames.size() > 4) return false;
    for (const Value operand : graph_[node].operands)
      for (const Frame* frame : frames) {
        const Frame* seen = draft_.frames.read(frame, node, operand);
        if (!graph_[operand].literal &&
            !draft_.frames.to_domain(seen, operand, facts_.views[operand.id].access))
          return false;
      }
    return true;
  }

  Workspace& work_;
  const Facts& facts_;
  const ir::Graph& graph_;
  Draft& draft_;
  std::priority_queue<Value, std::vector<Value>, std::greater<>> candidates_;
  std::unordered_set<uint32_t> seen_;
  std::unordered_set<uint32_t> escaping_;  // members that are outputs however the region grows
  size_t pulled_from_ = 0;
};

}  // namespace

void grow(Workspace& work, Draft& draft) {
  Growth(work, draft).run();
}

}  // namespace attacca::fuse
