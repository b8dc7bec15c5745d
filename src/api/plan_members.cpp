#include "api/plan_members.hpp"

namespace attacca::api {

json::Value choices_json(const std::vector<run::KnownChoice>& choices) {
  json::Value list = json::Value::array();
  for (const run::KnownChoice& known : choices) {
    json::Value entry = json::Value::object()
                            .set("device", known.key.device)
                            .set("problem", known.key.problem)
                            .set("shape", known.key.shape)
                            .set("tools", known.key.tools)
                            .set("candidate", to_string(known.choice.candidate))
                            .set("seconds", known.choice.seconds)
                            .set("unfused_seconds", known.choice.unfused_seconds);
    if (known.choice.quick) entry.set("quick", true);
    list.push(std::move(entry));
  }
  return list;
}

Result<std::vector<run::KnownChoice>> read_choices(const json::Value::Array& list,
                                                   const std::string& source) {
  std::vector<run::KnownChoice> choices;
  for (const json::Value& entry : list) {
    const Members members(entry, source);
    run::KnownChoice known;
    ATTACCA_TRY(known.key.device, members.get<std::string>("device"));
    ATTACCA_TRY(known.key.problem, members.get<std::string>("problem"));
    ATTACCA_TRY(known.key.shape, members.get<std::string>("shape"));
    // Files of older versions have none.
    if (const auto tools = members.get<std::string>("tools")) known.key.tools = *tools;
    ATTACCA_TRY(const std::string candidate, members.get<std::string>("candidate"));
    ATTACCA_TRY(known.choice.candidate, launch::parse_candidate(candidate));
    ATTACCA_TRY(known.choice.seconds, members.number("seconds"));
    ATTACCA_TRY(known.choice.unfused_seconds, members.number("unfused_seconds"));
    if (const auto quick = members.get<bool>("quick")) known.choice.quick = *quick;
    choices.push_back(std::move(known));
  }
  return choices;
}

}  // namespace attacca::api
