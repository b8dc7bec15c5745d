#include "fuse/user_kernels.hpp"

#include <algorithm>

#include "fmt/format.h"

#include "fuse/grow.hpp"

namespace attacca::fuse {
namespace {

using ir::Value;

// Why nothing may follow this kernel before its values are in memory; empty if ops may.
std::string kernel_obstacle(const Facts& facts, Value kernel) {
  const std::string label = display_name(facts.graph, kernel);
  if (facts.graph[kernel].get<ir::KernelAttrs>().call.zeroed)
    return fmt::format("{} starts as zeros, not uninitialised: its kernel may add to them", label);
  if (facts.is_output[kernel.id])
    return fmt::format("{} is a result of the graph as its kernel stores it", label);
  return {};
}

void refuse_users(Workspace& work, Value kernel, const std::string& reason) {
  for (const Value user : work.facts.users[kernel.id])
    if (!starts_region(work.graph()[user].op)) work.refusals.push_back({user, kernel, reason});
}

// A tail without any op is a copy.
bool computes(const Workspace& work, const Draft& draft) {
  return std::any_of(draft.members.begin() + 1, draft.members.end(),
                     [&](const auto& member) { return !is_view_op(work.graph()[member.node].op); });
}

void draft_kernel(Workspace& work, Value kernel) {
  if (const std::string reason = kernel_obstacle(work.facts, kernel); !reason.empty()) {
    refuse_users(work, kernel, reason);
    return;
  }
  Draft draft = work.start(RegionKind::UserKernel, kernel, work.graph().type(kernel).shape);
  grow(work, draft);
  if (computes(work, draft)) {
    work.commit(std::move(draft));
    return;
  }
  work.refusals.insert(work.refusals.end(), draft.refusals.begin(), draft.refusals.end());
  work.drop(draft, 0);
}

}  // namespace

void draft_kernels(Workspace& work) {
  for (uint32_t id = 0; id < work.graph().size(); ++id)
    if (work.schedule.scheduled(Value{id}) && work.graph()[Value{id}].op == ir::Op::Kernel)
      draft_kernel(work, Value{id});
}

}  // namespace attacca::fuse
