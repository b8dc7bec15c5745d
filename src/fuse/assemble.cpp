#include "fuse/assemble.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "fuse/emit.hpp"
#include "fuse/gathers.hpp"
#include "fuse/obstacles.hpp"
#include "fuse/operands.hpp"

namespace attacca::fuse {
namespace {

using ir::Op;
using ir::Value;

class Assembly {
 public:
  explicit Assembly(Workspace& work)
      : work_(work),
        facts_(work.facts),
        graph_(work.graph()),
        needed_(graph_.size(), false),
        useful_(graph_.size(), false) {}

  Partition run(ir::Graph graph) {
    decide();
    std::vector<std::pair<uint32_t, Region>> placed;
    for (Draft& draft : work_.drafts) placed.emplace_back(position(draft.root()), region_of(draft));
    for (const Value node : singles_) placed.emplace_back(position(node), single(node));
    std::sort(placed.begin(), placed.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    Partition result{std::move(graph), {}, {}};
    for (auto& [place, region] : placed) result.regions.push_back(std::move(region));
    add_lone_refusals();
    result.refusals = std::move(work_.refusals);
    return result;
  }

 private:
  uint32_t position(Value node) const {
    return work_.schedule.position(work_.schedule.group_of(node));
  }

  // Visits readers before the values that they read, to decide which values must be in memory.
  void decide() {
    for (const ir::Output& output : graph_.outputs()) needed_[output.value.id] = true;
    for (uint32_t id = static_cast<uint32_t>(graph_.size()); id-- > 0;) {
      const Value node{id};
      if (!work_.schedule.scheduled(node)) continue;
      if (work_.owner[id] == Workspace::kFree)
        decide_single(node);
      else
        decide_member(node);
    }
    std::reverse(singles_.begin(), singles_.end());
  }

  void decide_single(Value node) {
    // A node whose readers read its operands by strides, by an index or by group, or unpack, widen
    // or scale them themselves, is not computed.
    const Op op = graph_[node].op;
    const bool inner = op == Op::Unpack || op == Op::Cast || op == Op::ScaleBlocks ||
                       op == Op::Gather || op == Op::GroupIds || op == Op::MxFp4 ||
                       op == Op::Decode;
    if ((is_view_op(op) || inner) && !needed_[node.id]) return;
    singles_.push_back(node);
    needed_[node.id] = true;
    for (const Value operand : graph_[node].operands) needed_[operand.id] = true;
  }

  void decide_member(Value node) {
    if (!needed_[node.id] && !useful_[node.id]) {  // a view that only other regions read through
      work_.owner[node.id] = Workspace::kFree;
      return;
    }
    if (const auto scaled = scaled_operands(work_, node)) {
      const std::vector<Value>& of_a = graph_[scaled->of[0]].operands;
      if (gathered_a(work_, node)) {
        need_operands(facts_.views[of_a[0].id].source);
        need_source(of_a[1]);
      } else {
        need_operands(scaled->of[0]);
      }
      need_operands(scaled->of[1]);
      if (graph_[node].op == Op::GroupedMatMul) need_source(graph_[node].operands[2]);
      return;
    }
    const auto weights = quantized_weights(work_, node);
    const auto coded = coded_weights(work_, node);
    for (size_t i = 0; i < graph_[node].operands.size(); ++i) {
      const Value operand = graph_[node].operands[i];
      if (weights && facts_.views[operand.id].source == *weights) {
        need_source(graph_[*weights].operands[0]);
        continue;
      }
      const bool inside = work_.owner[operand.id] == work_.owner[node.id];
      if (inside)
        useful_[operand.id] = true;
      else if (graph_[node].op == Op::Kernel)
        needed_[operand.id] = true;  // a user's kernel takes an address, not strides
      else if (i == 1 && coded)
        need_operands(*coded);
      else if (reads_gathered(node, i))
        need_gathered(node, operand);
      else
        need_source(operand);
    }
  }

  void need_source(Value value) { needed_[facts_.views[value.id].source.id] = true; }
  void need_operands(Value node) {
    for (const Value operand : graph_[node].operands) need_source(operand);
  }

  // Whether a member reads an operand from where it is gathered.
  bool reads_gathered(Value node, size_t index) {
    if (is_product(graph_[node].op)) return index == 0 && gathered_a(work_, node).has_value();
    const Value operand = graph_[node].operands[index];
    if (graph_[facts_.views[operand.id].source].op != Op::Gather) return false;
    if (graph_[node].op == Op::ScatterAdd) return false;
    return in_every_frame(node, operand, gathered_operand);
  }

  // Needs what a member reads in place of a gathered operand: the matrix, and the index where it is
  // not the row's group.
  void need_gathered(Value node, Value operand) {
    const Value gather = facts_.views[operand.id].source;
    const bool by_group =
        !is_product(graph_[node].op) && in_every_frame(node, operand, operand_of_groups);
    if (by_group)
      need_source(graph_[gather].operands[0]);
    else
      need_operands(gather);
  }

  // Whether `find` finds an operand of a member in all frames in which the member is seen.
  template <class Find>
  bool in_every_frame(Value node, Value operand, const Find& find) {
    const auto draft = std::find_if(work_.drafts.begin(), work_.drafts.end(),
                                    [&](const Draft& d) { return d.id == work_.owner[node.id]; });
    const std::vector<const Frame*> frames = draft->frames_of(node);
    return std::all_of(frames.begin(), frames.end(), [&](const Frame* frame) {
      return find(work_, *draft, operand, draft->frames.read(frame, node, operand)).has_value();
    });
  }

  Region region_of(Draft& draft) {
    Region region;
    region.kind = draft.kind;
    for (const Draft::Member& member : draft.members)
      if (work_.owns(draft, member.node)) region.nodes.push_back(member.node);
    std::sort(region.nodes.begin(), region.nodes.end());
    for (const Value node : region.nodes)
      if (needed_[node.id]) region.outputs.push_back(node);
    region.epilogue = emit_epilogue(work_, draft, region.nodes, region.outputs);
    if (draft.kind == RegionKind::UserKernel) {
      region.kernel = draft.root();
      for (const Value operand : graph_[draft.root()].operands) add_input(region, operand);
    } else {
      for (const Value matmul : draft.gemms) region.gemms.push_back(describe_gemm(work_, matmul));
    }
    for (const Gemm& gemm : region.gemms) {
      add_input(region, gemm.a.source);
      if (gemm.a.rows) add_input(region, gemm.a.rows->source);
      add_input(region, gemm.b.source);
      if (gemm.b.codes) add_input(region, gemm.b.codes->scales);
      if (gemm.b.codes && gemm.b.codes->zeros) add_input(region, *gemm.b.codes->zeros);
      for (const GemmOperand* operand : {&gemm.a, &gemm.b})
        if (operand->scales) add_input(region, operand->scales->source);
      if (gemm.groups) add_input(region, gemm.groups->source);
    }
    for (const epilogue::Input& input : region.epilogue.inputs) {
      if (input.role != epilogue::Role::Accumulator) add_input(region, input.source);
      if (input.rows) add_input(region, input.rows->source);
    }
    for (const epilogue::Output& output : region.epilogue.outputs)
      if (output.rows) {
        add_input(region, output.base);
        add_input(region, output.rows->source);
      }
    return region;
  }

  Region single(Value node) const {
    Region region;
    region.nodes = region.outputs = {node};
    for (const Value operand : graph_[node].operands) add_input(region, operand);
    return region;
  }

  static void add_input(Region& region, Value value) {
    if (std::find(region.inputs.begin(), region.inputs.end(), value) == region.inputs.end())
      region.inputs.push_back(value);
  }

  std::string lone_reason(Value node) const {
    const ir::Node& n = graph_[node];
    if (n.op == Op::GroupedMatMul && !work_.options.grouped)
      return "the device has no kernel that computes ops after a grouped product";
    if (is_product(n.op)) return gemm_obstacle(graph_, node);
    if (n.op == Op::Kernel) return work_.options.fuse ? "no op follows it" : "fusing is off";
    if (is_pointwise(n.op) && !is_view_op(n.op)) return dtype_obstacle(graph_, node);
    if (is_view_op(n.op))
      return facts_.is_output[node.id]
                 ? fmt::format("{} is a result of the graph: its elements are copied", name(n.op))
                 : fmt::format("{} is read by an op done on its own: its elements are copied",
                               name(n.op));
    return structural_reason(graph_, node);
  }

  // Single ops and products without a tail that no region included.
  void add_lone_refusals() {
    std::vector<bool> explained(graph_.size(), false);
    for (const Refusal& refusal : work_.refusals) {
      explained[refusal.node.id] = true;
      explained[refusal.region_root.id] = true;
    }
    for (const Value node : singles_)
      if (!explained[node.id]) work_.refusals.push_back({node, node, lone_reason(node)});
    for (const Draft& draft : work_.drafts) {
      const Value root = draft.root();
      if (draft.kind == RegionKind::Gemm && draft.members.size() == 1 && !explained[root.id])
        work_.refusals.push_back(
            {root, root, work_.options.fuse ? "no op follows it" : "fusing is off"});
    }
  }

  Workspace& work_;
  const Facts& facts_;
  const ir::Graph& graph_;
  std::vector<bool> needed_;  // in memory
  std::vector<bool> useful_;  // read by a member of its own region
  std::vector<Value> singles_;
};

}  // namespace

Partition assemble(Workspace& work, ir::Graph graph) {
  return Assembly(work).run(std::move(graph));
}

}  // namespace attacca::fuse
