#include "api/tuning.hpp"

#include <ctime>

#include "fmt/format.h"

#include "api/plan.hpp"
#include "launch/toolbox.hpp"
#include "problem/problem_json.hpp"
#include "run/cuda/problems.hpp"
#include "run/pipeline.hpp"
#include "tune/exchange.hpp"

namespace attacca::api {
namespace {

Result<run::Target> gpu_target(const std::string& device, ir::Mode mode) {
  if (auto described = run::described_device(device, "device"))
    return run::Target::cuda(gpu::Device::described(*std::move(described)), mode);
  const auto id = parse_device(device);
  if (!id || !id->cuda)
    return fail(fmt::format("{} is no GPU", device), "device",
                fmt::format("give cuda, cuda:1, sm_90 or one of {}", gpu::known_device_names()));
  return run::Target::of(*id, mode);
}

json::Value row_json(const tune::StoredChoice& row) {
  return json::Value::object()
      .set("device", row.key.device)
      .set("tools", row.key.tools)
      .set("problem", row.key.problem)
      .set("shape", row.key.shape)
      .set("candidate", row.candidate)
      .set("seconds", row.seconds)
      .set("unfused_seconds", row.unfused_seconds)
      .set("made", row.made)
      .set("quick", row.quick);
}

// Reads one member into what has its type.
class RowReader {
 public:
  explicit RowReader(const json::Value& object) : object_(object) {}

  template <class T>
  RowReader& take(std::string_view key, T& into) {
    const json::Value* member = object_.find(key);
    if (member != nullptr && member->is<T>())
      into = member->as<T>();
    else if (!std::is_same_v<T, double> || member == nullptr || !member->is_number())
      whole_ = false;
    else if constexpr (std::is_same_v<T, double>)
      into = member->number();
    return *this;
  }
  bool whole() const { return whole_; }

 private:
  const json::Value& object_;
  bool whole_ = true;
};

Result<tune::StoredChoice> read_row(const json::Value& object, size_t index) {
  tune::StoredChoice row;
  const bool whole = RowReader(object)
                         .take("device", row.key.device)
                         .take("tools", row.key.tools)
                         .take("problem", row.key.problem)
                         .take("shape", row.key.shape)
                         .take("candidate", row.candidate)
                         .take("seconds", row.seconds)
                         .take("unfused_seconds", row.unfused_seconds)
                         .take("made", row.made)
                         .take("quick", row.quick)
                         .whole();
  if (!whole || !tune::is_sound(row))
    return fail(fmt::format("row {} is not one of a tuning database", index), "choices",
                "give what attacca_choices_list and attacca_problem_tune give");
  return row;
}

}  // namespace

Result<json::Value> machine_json(const run::DeviceId& device) {
  if (!device.cuda) return fail("only GPUs are tuned", "device", "give cuda");
  ATTACCA_TRY(const auto toolbox, launch::Toolbox::open(device.ordinal));
  return json::Value::object()
      .set("device", toolbox->device().info().name)
      .set("capability", toolbox->device().info().capability())
      .set("tools", toolbox->identity());
}

Result<run::Target> tuning_target(const std::string& device, std::string_view mode_text) {
  const auto [spelled, batch_invariant] = problem::without_batch_invariant(mode_text);
  ATTACCA_TRY(const ir::Mode mode, parse_mode(spelled));
  ATTACCA_TRY(run::Target target, gpu_target(device, mode));
  target.batch_invariant = batch_invariant;
  return target;
}

Result<json::Value> problems_json(const ir::Graph& graph, const run::Target& target,
                                  const ir::SymbolValues& sizes) {
  ATTACCA_TRY_VOID(check_sizes(graph.symbols(), sizes));
  ATTACCA_TRY(const run::Prepared prepared, run::prepare(graph, target));
  ATTACCA_TRY(const auto problems, run::list_problems(prepared, sizes));
  json::Value list = json::Value::array();
  for (const run::ListedProblem& each : problems) {
    json::Value entry = json::Value::object()
                            .set("region", each.region)
                            .set("problem", each.problem)
                            .set("shape", each.shape);
    if (!each.problem.empty())
      entry.set("operations", each.operations).set("text", to_json(each.text));
    list.push(std::move(entry));
  }
  return list;
}

Result<json::Value> tune_problem(const std::string& problem, const Options& options) {
  ATTACCA_TRY(const json::Value parsed, json::parse(problem, "problem"));
  const auto text = problem::problem_from_json(parsed);
  if (!text)
    return fail("the JSON is not a problem", "problem", "give what attacca_graph_problems gives");
  if (!options.device.cuda) return fail("only GPUs are tuned", "device", "give cuda");
  ATTACCA_TRY(const auto toolbox, launch::Toolbox::open(options.device.ordinal));
  run::CudaOptions cuda{.tuning = options.tuning,
                        .tune_options = tune::options_within(options.tuning_seconds)};
  ATTACCA_TRY(const run::Decision decision, run::decide_problem(toolbox, *text, std::move(cuda)));
  json::Value made = run::decision_json(decision, 1);
  if (decision.seconds > 0)
    made.set("choice", row_json({decision.key, to_string(decision.candidate), decision.seconds,
                                 decision.unfused_seconds, static_cast<int64_t>(std::time(nullptr)),
                                 decision.quick}));
  return made;
}

Result<json::Value> rows_json() {
  json::Value list = json::Value::array();
  if (tune::Database::is_missing()) return list;
  ATTACCA_TRY(tune::Database database, tune::Database::open());
  ATTACCA_TRY(const auto rows, database.list());
  for (const tune::StoredChoice& row : rows) list.push(row_json(row));
  return list;
}

Result<size_t> store_rows(const std::string& json) {
  ATTACCA_TRY(const json::Value parsed, json::parse(json, "choices"));
  if (!parsed.is<json::Value::Array>())
    return fail("the JSON is not a list of rows", "choices",
                "give what attacca_choices_list gives");
  std::vector<tune::StoredChoice> rows;
  for (const json::Value& each : parsed.as<json::Value::Array>()) {
    ATTACCA_TRY(tune::StoredChoice row, read_row(each, rows.size()));
    rows.push_back(std::move(row));
  }
  ATTACCA_TRY(tune::Database database, tune::Database::open());
  ATTACCA_TRY_VOID(database.store_all(rows));
  return rows.size();
}

}  // namespace attacca::api
