#include "run/cuda/decision.hpp"

namespace attacca::run {
namespace {

json::Value trials_json(std::span<const tune::Trial> trials) {
  json::Value list = json::Value::array();
  for (const tune::Trial& trial : trials) {
    json::Value entry = json::Value::object().set("candidate", to_string(trial.candidate));
    if (trial.seconds)
      entry.set("seconds", *trial.seconds);
    else
      entry.set("failed", trial.failure);
    list.push(std::move(entry));
  }
  return list;
}

}  // namespace

size_t region_number(const Decision& decision, const fuse::Partition& partition) {
  return static_cast<size_t>(decision.region.get() - partition.regions.data()) + 1;
}

json::Value exclusions_json(std::span<const launch::Exclusion> exclusions) {
  json::Value list = json::Value::array();
  for (const launch::Exclusion& each : exclusions)
    list.push(json::Value::object().set("template", each.kernel).set("reason", each.reason));
  return list;
}

json::Value decisions_json(std::span<const Decision> decisions, const fuse::Partition& partition) {
  json::Value list = json::Value::array();
  for (const Decision& each : decisions) {
    json::Value entry = json::Value::object()
                            .set("region", region_number(each, partition))
                            .set("candidate", to_string(each.candidate))
                            .set("source", each.source)
                            .set("seconds", each.seconds)
                            .set("unfused_seconds", each.unfused_seconds);
    if (each.expected_seconds > 0) entry.set("expected_seconds", each.expected_seconds);
    if (each.expected_unfused_seconds > 0)
      entry.set("expected_fused_seconds", each.expected_fused_seconds)
          .set("expected_unfused_seconds", each.expected_unfused_seconds);
    entry.set("problem", each.key.problem)
        .set("shape", each.key.shape)
        .set("trials", trials_json(each.trials))
        .set("excluded", exclusions_json(each.excluded));
    if (!each.not_stored.empty()) entry.set("not_stored", each.not_stored);
    list.push(std::move(entry));
  }
  return list;
}

}  // namespace attacca::run
