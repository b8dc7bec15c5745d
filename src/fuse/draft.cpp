#include "fuse/draft.hpp"

#include "fuse/gates.hpp"
#include "fuse/grow.hpp"
#include "fuse/obstacles.hpp"
#include "fuse/operands.hpp"

namespace attacca::fuse {
namespace {

using ir::Value;

// Whether products alone read the node, and their kernels compute it.
bool is_inner(const Workspace& work, Value node) {
  if (!work.options.quantized_operands || work.facts.is_output[node.id]) return false;
  std::vector<Value> readers = work.facts.users[node.id];
  while (!readers.empty()) {
    const Value reader = readers.back();
    readers.pop_back();
    if (is_view_op(work.graph()[reader].op) && !work.facts.is_output[reader.id]) {
      const std::vector<Value>& more = work.facts.users[reader.id];
      readers.insert(readers.end(), more.begin(), more.end());
    } else if (quantized_weights(work, reader) != node) {
      return false;
    }
  }
  return true;
}

bool starts_pointwise(const Workspace& work, Value node) {
  const ir::Op op = work.graph()[node].op;
  if (op == ir::Op::Cast && is_inner(work, node)) return false;
  return work.schedule.scheduled(node) && work.owner[node.id] == Workspace::kFree &&
         is_pointwise(op) && !is_view_op(op) && dtype_obstacle(work.graph(), node).empty();
}

// Which nodes only ops over more elements read, which may compute them along.
std::vector<bool> only_repeated(const Facts& facts) {
  std::vector<bool> result(facts.graph.size(), false);
  for (uint32_t id = static_cast<uint32_t>(facts.graph.size()); id-- > 0;) {
    if (!is_pointwise(facts.graph.nodes()[id].op) || facts.is_output[id]) continue;
    bool repeated = true;
    for (const Value user : facts.users[id]) {
      const bool larger = !(facts.count[user.id] == facts.count[id]);
      repeated &= is_pointwise(facts.graph[user].op) && (larger || result[user.id]);
    }
    result[id] = repeated;
  }
  return result;
}

// What a draft has: its root alone, or all that can join it.
enum class Members : uint8_t { Root, All };

void draft_one(Workspace& work, RegionKind kind, Value root, Members members) {
  Draft draft = work.start(kind, root, work.graph().type(root).shape);
  if (members == Members::All) grow(work, draft);
  work.commit(std::move(draft));
}

bool scales_blocks(const Workspace& work, Value matmul) {
  return scaled_operands(work, matmul).has_value();
}

// Whether there are kernels for a gate of products like this one: there are none for packed weights
// and bytes, and for scaled blocks only in grouped products.
bool may_gate(const Workspace& work, Value matmul) {
  if (quantized_weights(work, matmul)) return false;
  return work.graph()[matmul].op == ir::Op::GroupedMatMul || !scales_blocks(work, matmul);
}

bool is_gemm(const Workspace& work, Value node) {
  const ir::Op op = work.graph()[node].op;
  return work.schedule.scheduled(node) &&
         (op == ir::Op::MatMul || (op == ir::Op::GroupedMatMul && work.options.grouped)) &&
         gemm_obstacle(work.graph(), node).empty();
}

}  // namespace

void draft_gemms(Workspace& work) {
  const std::map<uint32_t, GatePair> pairs = find_gate_pairs(work.facts);
  for (uint32_t id = 0; id < work.graph().size(); ++id) {
    const Value node{id};
    if (!is_gemm(work, node) || work.owner[id] != Workspace::kFree) continue;
    std::optional<Draft> gate;
    const auto pair = pairs.find(id);
    if (may_gate(work, node)) {
      if (pair != pairs.end() && may_gate(work, pair->second.first) &&
          may_gate(work, pair->second.second) &&
          scales_blocks(work, pair->second.first) == scales_blocks(work, pair->second.second))
        gate = draft_pair(work, pair->second);
      if (!gate) gate = draft_halves(work, node);
    }
    if (gate)
      work.commit(*std::move(gate));
    else
      draft_one(work, RegionKind::Gemm, node, Members::All);
  }
}

void draft_pointwise(Workspace& work) {
  const std::vector<bool> later = only_repeated(work.facts);
  for (const bool leftovers : {false, true})
    for (uint32_t id = 0; id < work.graph().size(); ++id)
      if (starts_pointwise(work, Value{id}) && (leftovers || !later[id]))
        draft_one(work, RegionKind::Pointwise, Value{id}, Members::All);
}

void draft_alone(Workspace& work) {
  for (uint32_t id = 0; id < work.graph().size(); ++id) {
    if (is_gemm(work, Value{id}))
      draft_one(work, RegionKind::Gemm, Value{id}, Members::Root);
    else if (starts_pointwise(work, Value{id}))
      draft_one(work, RegionKind::Pointwise, Value{id}, Members::Root);
  }
}

}  // namespace attacca::fuse
