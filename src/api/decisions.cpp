#include "api/decisions.hpp"

#include "support/text/json.hpp"

namespace attacca::api {
namespace {

json::Value to_json(const run::Decision& decision) {
  json::Value trials = json::Value::array();
  for (const tune::Trial& trial : decision.trials) {
    json::Value entry = json::Value::object().set("candidate", to_string(trial.candidate));
    if (trial.seconds)
      entry.set("seconds", *trial.seconds);
    else
      entry.set("failed", trial.failure);
    trials.push(std::move(entry));
  }
  json::Value excluded = json::Value::array();
  for (const launch::Exclusion& each : decision.excluded)
    excluded.push(json::Value::object().set("template", each.kernel).set("reason", each.reason));
  return json::Value::object()
      .set("candidate", to_string(decision.candidate))
      .set("source", decision.source)
      .set("seconds", decision.seconds)
      .set("unfused_seconds", decision.unfused_seconds)
      .set("problem", decision.key.problem)
      .set("shape", decision.key.shape)
      .set("trials", std::move(trials))
      .set("excluded", std::move(excluded));
}

}  // namespace

std::string decisions_json(std::span<const run::Decision> decisions) {
  json::Value list = json::Value::array();
  for (const run::Decision& decision : decisions) list.push(to_json(decision));
  return json::dump(list, 2);
}

}  // namespace attacca::api
