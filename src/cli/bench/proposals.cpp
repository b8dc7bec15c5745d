#include "cli/bench/answers.hpp"
#include "cli/commands.hpp"
#include "launch/unfused.hpp"
#include "support/text/json.hpp"
#include "tune/worker.hpp"

namespace attacca::cli {
namespace {

// The names of what describe() writes of an algorithm.
json::Value names() {
  json::Value names = list_of(launch::kVendorConfig);
  for (const char* name : {"waves", "workspace", "place", "place_little_workspace"})
    names.push(name);
  return names;
}

json::Value describe(const launch::VendorAlgorithm& algorithm) {
  json::Value values = list_of(algorithm.config);
  values.push(algorithm.waves);
  values.push(algorithm.workspace_bytes);
  for (const int place : algorithm.places) values.push(place);
  return values;
}

Result<json::Value> propose(const std::string& line,
                            const std::shared_ptr<launch::Toolbox>& toolbox) {
  ATTACCA_TRY(const tune::TimingRequest request, tune::read_request(line));
  ATTACCA_TRY(const problem::Problem problem, read_problem(request.problem));
  ATTACCA_TRY(const auto proposals, launch::unfused_proposals(toolbox, problem));
  json::Value made = json::Value::object();
  for (const launch::Proposal& each : proposals)
    made.set(to_string(each.candidate),
             each.algorithm ? describe(*each.algorithm) : json::Value::array());
  return json::Value::object().set("proposals", std::move(made));
}

Result<int> try_proposals() {
  ATTACCA_TRY(const auto toolbox, launch::Toolbox::open(0));
  ATTACCA_TRY(const auto vendor, toolbox->vendor());
  answer_lines(json::Value::object().set("names", names()).set("vendor", vendor->version()),
               [&](const std::string& line) {
                 auto made = propose(line, toolbox);
                 return made ? *std::move(made)
                             : json::Value::object().set("failed", to_string(made.error()));
               });
  return kOk;
}

}  // namespace

int bench_proposals() {
  return exit_code(try_proposals());
}

}  // namespace attacca::cli
