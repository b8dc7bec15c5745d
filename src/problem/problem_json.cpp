#include "problem/problem_json.hpp"

namespace attacca::problem {
namespace {

constexpr std::string_view kBatchInvariant = "+batch_invariant";

}  // namespace

std::pair<std::string_view, bool> without_batch_invariant(std::string_view mode) {
  if (!mode.ends_with(kBatchInvariant)) return {mode, false};
  return {mode.substr(0, mode.size() - kBatchInvariant.size()), true};
}

json::Value to_json(const ProblemText& text) {
  json::Value symbols = json::Value::object(), alignments = json::Value::object();
  for (const auto& [name, value] : text.symbols) symbols.set(name, value);
  for (const auto& [name, value] : text.alignments) alignments.set(name, value);
  return json::Value::object()
      .set("graph", text.graph)
      .set("symbols", symbols)
      .set("mode",
           std::string(name(text.mode)) + std::string(text.batch_invariant ? kBatchInvariant : ""))
      .set("alignments", alignments);
}

std::optional<ProblemText> problem_from_json(const json::Value& json) {
  const json::Value *graph = json.find("graph"), *symbols = json.find("symbols"),
                    *mode = json.find("mode"), *alignments = json.find("alignments");
  if (graph == nullptr || !graph->is<std::string>() || symbols == nullptr ||
      !symbols->is<json::Value::Object>() || mode == nullptr || !mode->is<std::string>() ||
      alignments == nullptr || !alignments->is<json::Value::Object>())
    return std::nullopt;
  ProblemText text;
  text.graph = graph->as<std::string>();
  for (const auto& [name, value] : symbols->as<json::Value::Object>()) {
    if (!value.is<int64_t>()) return std::nullopt;
    text.symbols[name] = value.as<int64_t>();
  }
  for (const auto& [name, value] : alignments->as<json::Value::Object>()) {
    if (!value.is<int64_t>()) return std::nullopt;
    text.alignments[name] = static_cast<int>(value.as<int64_t>());
  }
  const auto [spelled, batch_invariant] = without_batch_invariant(mode->as<std::string>());
  text.batch_invariant = batch_invariant;
  const auto parsed = ir::parse_mode(spelled);
  if (!parsed) return std::nullopt;
  text.mode = *parsed;
  return text;
}

}  // namespace attacca::problem
