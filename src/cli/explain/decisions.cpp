#include "cli/explain/decisions.hpp"

#include "fmt/format.h"

namespace attacca::cli {
namespace {

std::string times(const run::Decision& decision) {
  if (decision.joint)
    return fmt::format(", {}{:.2f} us, apart {:.2f} us",
                       decision.joint->source == run::Source::Model ? "expected " : "",
                       decision.joint->seconds * 1e6, decision.joint->apart_seconds * 1e6);
  if (decision.expected_unfused_seconds > 0)
    return fmt::format(", unfused expected {:.2f} us, fused {:.2f} us",
                       decision.expected_unfused_seconds * 1e6,
                       decision.expected_fused_seconds * 1e6);
  if (decision.expected_seconds > 0)
    return fmt::format(", expected {:.2f} us", decision.expected_seconds * 1e6);
  if (decision.seconds <= 0) return {};
  std::string text = fmt::format(", {:.2f} us", decision.seconds * 1e6);
  if (decision.unfused_seconds > 0)
    text += fmt::format(", unfused {:.2f} us", decision.unfused_seconds * 1e6);
  return text;
}

// A region without a product is a kernel of its own; its candidate does not say so.
std::string how(const run::Decision& decision) {
  if (decision.region->kind == fuse::RegionKind::Pointwise) return "pointwise kernel";
  if (decision.joint)
    return fmt::format("{}, {} regions in one launch", to_string(decision.used()),
                       decision.together());
  return to_string(decision.candidate) + (decision.gathers_before ? kGathersBefore : "") +
         (decision.widens_before ? kWidensBefore : "");
}

}  // namespace

std::string decisions_text(std::span<const run::Decision> decisions,
                           const fuse::Partition& partition) {
  std::string text = decisions.empty() ? "" : "\n";
  for (const run::Decision& each : decisions) {
    text += fmt::format("region {} by {} ({}{}{})\n", run::region_number(each, partition),
                        how(each), to_string(each.joint ? each.joint->source : each.source),
                        each.remark.empty() ? "" : ", " + each.remark, times(each));
    // There are many templates; `explain` lists them.
    if (each.region->kernel)
      for (const launch::Exclusion& excluded : each.excluded)
        text += fmt::format("  not fused: {}\n", excluded.reason);
    if (!each.not_stored.empty()) text += fmt::format("  not stored: {}\n", each.not_stored);
  }
  return text;
}

json::Value dims_json(const ir::SymbolValues& symbols) {
  json::Value dims = json::Value::object();
  for (const auto& [name, size] : symbols) dims.set(name, size);
  return dims;
}

json::Value trials_json(std::span<const tune::Trial> trials) {
  json::Value list = json::Value::array();
  for (const tune::Trial& trial : trials) {
    json::Value entry = json::Value::object()
                            .set("candidate", to_string(trial.candidate))
                            .set("final", trial.final);
    if (trial.seconds)
      entry.set("us", *trial.seconds * 1e6);
    else
      entry.set("failed", trial.failure);
    list.push(std::move(entry));
  }
  return list;
}

}  // namespace attacca::cli
