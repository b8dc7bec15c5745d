#include "run/cuda/decision.hpp"

namespace attacca::run {
namespace {

json::Value trials_json(std::span<const tune::Trial> trials) {
  json::Value list = json::Value::array();
  for (const tune::Trial& trial : trials) {
    json::Value entry = json::Value::object().set("candidate", to_string(trial.candidate));
    entry.set("final", trial.final);
    if (trial.seconds)
      entry.set("seconds", *trial.seconds);
    else
      entry.set("failed", trial.failure);
    list.push(std::move(entry));
  }
  return list;
}

}  // namespace

std::string_view to_string(Source source) {
  static constexpr std::string_view kNames[] = {"measured", "bundle",   "plan",
                                                "database", "shipped",  "model",
                                                "analysis", "only way", "fallback"};
  return kNames[static_cast<size_t>(source)];
}

size_t region_number(const Decision& decision, const fuse::Partition& partition) {
  return static_cast<size_t>(decision.region.get() - partition.regions.data()) + 1;
}

json::Value exclusions_json(std::span<const launch::Exclusion> exclusions) {
  json::Value list = json::Value::array();
  for (const launch::Exclusion& each : exclusions)
    list.push(json::Value::object().set("template", each.kernel).set("reason", each.reason));
  return list;
}

json::Value decision_json(const Decision& decision, size_t region) {
  json::Value entry = json::Value::object()
                          .set("region", region)
                          .set("candidate", to_string(decision.used()))
                          .set("source", to_string(decision.source))
                          .set("seconds", decision.seconds)
                          .set("unfused_seconds", decision.unfused_seconds);
  if (!decision.remark.empty()) entry.set("remark", decision.remark);
  if (decision.modelled) entry.set("modelled", to_string(*decision.modelled));
  if (decision.gathers_before) entry.set("gathers_before", true);
  if (decision.widens_before) entry.set("widens_before", true);
  if (decision.joint)
    entry.set("together", decision.joint->regions)
        .set("together_source", to_string(decision.joint->source))
        .set("together_seconds", decision.joint->seconds)
        .set("apart_seconds", decision.joint->apart_seconds);
  if (decision.expected_seconds > 0) entry.set("expected_seconds", decision.expected_seconds);
  if (decision.expected_unfused_seconds > 0)
    entry.set("expected_fused_seconds", decision.expected_fused_seconds)
        .set("expected_unfused_seconds", decision.expected_unfused_seconds);
  entry.set("problem", decision.key.problem)
      .set("shape", decision.key.shape)
      .set("trials", trials_json(decision.trials))
      .set("excluded", exclusions_json(decision.excluded));
  if (!decision.not_stored.empty()) entry.set("not_stored", decision.not_stored);
  return entry;
}

json::Value decisions_json(std::span<const Decision> decisions, const fuse::Partition& partition) {
  json::Value list = json::Value::array();
  for (const Decision& each : decisions)
    list.push(decision_json(each, region_number(each, partition)));
  return list;
}

}  // namespace attacca::run
