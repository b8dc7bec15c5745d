#include "cli/bench/answers.hpp"
#include "cli/commands.hpp"
#include "run/shared/target.hpp"
#include "support/text/json.hpp"
#include "tune/candidates.hpp"
#include "tune/model/age.hpp"
#include "tune/model/cost_model.hpp"
#include "tune/model/proposal_model.hpp"
#include "tune/model/ranking_tree.hpp"
#include "tune/model/unfused_model.hpp"
#include "tune/worker.hpp"

namespace attacca::cli {
namespace {

double number(const json::Value& value) {
  return value.is<double>() ? value.as<double>() : double(value.as<int64_t>());
}

// As `bench proposals` writes it.
launch::VendorAlgorithm read_algorithm(const json::Value& value) {
  const auto& values = value.as<json::Value::Array>();
  launch::VendorAlgorithm algorithm{};
  const size_t own = algorithm.config.size();
  for (size_t i = 0; i < own; ++i) algorithm.config[i] = int(number(values.at(i)));
  algorithm.waves = number(values.at(own));
  algorithm.workspace_bytes = size_t(number(values.at(own + 1)));
  for (size_t i = own + 2; i < values.size(); ++i)
    algorithm.places.push_back(int(number(values[i])));
  return algorithm;
}

// The features of each proposal that the request names, and which of them is taken.
Status describe_proposals(const std::string& line, const problem::Problem& problem,
                          const gpu::DeviceInfo& device, json::Value& described) {
  ATTACCA_TRY(const json::Value root, json::parse(line, "request"));
  const json::Value* asked = root.find("proposals");
  if (asked == nullptr || asked->as<json::Value::Object>().empty()) return {};
  json::Value features = json::Value::object();
  std::vector<launch::Proposal> proposals;
  const std::vector<launch::VendorEpilogue> ways = launch::vendor_epilogues(problem);
  for (const auto& [name, values] : asked->as<json::Value::Object>()) {
    ATTACCA_TRY(const launch::Candidate candidate, launch::parse_candidate(name));
    proposals.push_back({candidate, read_algorithm(values)});
    features.set(name, list_of(tune::proposal_features(problem, ways.at(size_t(candidate.absorbed)),
                                                       *proposals.back().algorithm, device)));
  }
  described.set("proposals", std::move(features));
  described.set("taken", to_string(tune::best_proposal(problem, proposals, device).candidate));
  return {};
}

Result<json::Value> describe(const std::string& line, const templates::Catalog& catalog,
                             const gpu::DeviceInfo& device) {
  ATTACCA_TRY(const tune::TimingRequest request, tune::read_request(line));
  ATTACCA_TRY(const problem::Problem problem, read_problem(request.problem));
  json::Value features = json::Value::object(), expected = json::Value::object();
  const launch::Candidates found = tune::fused_candidates(problem, catalog, device);
  for (size_t i = 0; i < found.ranked.size(); ++i) {
    const launch::Candidate& each = found.ranked[i];
    features.set(each.kernel, list_of(tune::features(problem, *catalog.find(each.kernel),
                                                     *each.binding, device)));
    expected.set(each.kernel, found.expected[i]);
  }
  json::Value unfused = json::Value::array(), expected_unfused = json::Value::array();
  json::Value margins = json::Value::array();
  for (const launch::VendorEpilogue& way : launch::vendor_epilogues(problem)) {
    unfused.push(list_of(tune::unfused_features(problem, way, device)));
    const auto [seconds, margin] = tune::expected_unfused(problem, way, device);
    expected_unfused.push(seconds);
    margins.push(margin);
  }
  json::Value described = json::Value::object();
  ATTACCA_TRY_VOID(describe_proposals(line, problem, device, described));
  return described.set("unfused", std::move(unfused))
      .set("expected_unfused", std::move(expected_unfused))
      .set("margins", std::move(margins))
      .set("features", std::move(features))
      .set("expected", std::move(expected));
}

Result<int> try_features(const std::string& as) {
  ATTACCA_TRY(const templates::Catalog catalog, templates::Catalog::open(nullptr));
  ATTACCA_TRY(const gpu::DeviceInfo device, run::described_device(as, "--as"));
  answer_lines(json::Value::object()
                   .set("names", list_of(tune::kFeatureNames))
                   .set("unfused_names", list_of(tune::kUnfusedFeatureNames))
                   .set("proposal_names", list_of(tune::kProposalFeatureNames))
                   .set("templates", list_of(tune::short_fingerprints(catalog))),
               [&](const std::string& line) {
                 auto described = describe(line, catalog, device);
                 return described ? *std::move(described)
                                  : json::Value::object().set("failed", described.error().what);
               });
  return kOk;
}

}  // namespace

int bench_features(const std::string& as) {
  return exit_code(try_features(as));
}

}  // namespace attacca::cli
